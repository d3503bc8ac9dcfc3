package envoy

import (
	"errors"

	"github.com/headgate-io/headgate/server/verdict"
)

// Requests of one descriptor go by RL.CHECK, until there is a command for several.

type descriptors struct {
	Domain      string
	Hits        uint32
	Descriptors []descriptor
}
type descriptor struct {
	Entries []verdict.Attribute
	Hits    int64
	HasHits bool
	Limit   *rateLimit
}
type rateLimit struct {
	Requests   uint32
	Unit       string
	Multiplier uint32
}

func (d *descriptors) Append(dst []byte) ([]byte, error) {
	if len(d.Descriptors) != 1 {
		return dst, errors.New("one descriptor in a request")
	}
	c := verdict.Call{Policy: d.Domain, Attributes: d.Descriptors[0].Entries, Cost: max(1, int64(d.Hits)), HasCost: true}
	return c.AppendCheck(dst)
}

type ruling struct {
	Over     bool
	Binding  int
	Reason   []byte
	Version  int64
	Statuses []ruled
	Degraded bool
}
type ruled struct {
	Over       bool
	Limited    bool
	Requests   int64
	Unit       []byte
	Multiplier int64
	Name       []byte
	Remaining  int64
	ResetMS    int64
	RetryMS    int64

	Unlimited, Shadow, Quota, Replaced, Unmatched bool
	Metadata                                      []byte
}

func (r *ruling) Read(replies []byte) (rest []byte, err error) {
	var v verdict.Verdict
	if rest, err = v.Read(replies); err != nil {
		return rest, err
	}
	*r = ruling{Over: !v.Allowed, Binding: -1, Reason: v.Reason, Version: v.Version, Degraded: v.Degraded}
	s := ruled{Over: !v.Allowed, Name: v.Name, Remaining: max(0, v.Remaining), ResetMS: v.ResetAfter, RetryMS: v.RetryAfter}
	if v.Name != nil {
		r.Binding, s.Limited, s.Requests = 0, true, v.Limit
	}
	r.Statuses = []ruled{s}
	return rest, nil
}

const (
	maxDescriptors = 64
	maxEntries     = 32
)
