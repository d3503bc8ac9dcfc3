package web

import (
	"errors"
	"net/http"
	"strconv"

	"github.com/headgate-io/headgate/resp"
	"github.com/headgate-io/headgate/server/fronts"
	"github.com/headgate-io/headgate/server/verdict"
)

// # Leases
//
// RL.ACQUIRE, RL.RELEASE and RL.EXTEND.

// leaseRequest is the body of a call about a lease.
type leaseRequest struct {
	key, lease, ttl string
	limit, cost     int64
	hasLimit        bool
	hasCost         bool
}

var (
	acquireFields = []string{"key", "limit", "ttl", "lease", "cost"}
	extendFields  = []string{"key", "lease", "ttl"}
	releaseFields = []string{"key", "lease"}
)

var (
	errLeaseKey   = errors.New("key is missing")
	errLeaseLimit = errors.New("limit is missing")
	errLeaseTTL   = errors.New("ttl is missing")
	errLease      = errors.New("lease is missing")
)

// read reads a body of some fields.
func (l *leaseRequest) read(r *jsonReader, fields []string) error {
	return r.object(fields, func(field int) (err error) {
		switch fields[field] {
		case "key":
			l.key, err = r.text()
		case "lease":
			l.lease, err = r.text()
		case "ttl":
			l.ttl, err = r.text()
		case "limit":
			l.hasLimit = true
			l.limit, err = r.number()
		case "cost":
			l.hasCost = true
			l.cost, err = r.number()
		}
		return err
	})
}

// acquire takes a lease, or renews the one that the body names.
func (a *api) acquire(x *exchange) *problem {
	l, p := x.readLease(acquireFields)
	switch {
	case p != nil:
		return p
	case !l.hasLimit:
		return badRequest(errLeaseLimit)
	case l.ttl == "":
		return badRequest(errLeaseTTL)
	}
	args := []string{"RL.ACQUIRE", l.key, strconv.FormatInt(l.limit, 10), l.ttl}
	if l.lease != "" {
		args = append(args, "ID", l.lease)
	}
	if l.hasCost {
		args = append(args, "COST", strconv.FormatInt(l.cost, 10))
	}
	reply, p := a.askLease(x, args)
	if p != nil {
		return p
	}
	number := func(b []byte, name string) []byte {
		b = append(append(append(b, ',', '"'), name...), `":`...)
		f := reply.Field(name)
		if f == nil {
			return append(b, '0')
		}
		return strconv.AppendInt(b, f.Int, 10)
	}
	allowed, lease := reply.Field("allowed"), reply.Field("lease")
	passes := allowed != nil && allowed.Int == 1
	x.result = fronts.Of(passes)
	b := strconv.AppendBool(append(x.out[:0], `{"allowed":`...), passes)
	for _, name := range [...]string{"limit", "remaining", "retry_after_ms", "ttl_ms"} {
		b = number(b, name)
	}
	b = append(b, `,"lease":`...)
	if lease == nil || lease.Type == '_' {
		b = append(b, "null"...)
	} else {
		b = appendText(b, lease.Str)
	}
	x.out = append(strconv.AppendBool(append(b, `,"degraded":`...), reply.Field("degraded") != nil), '}')
	send(x.w, http.StatusOK, typeJSON, x.out)
	return nil
}

// release ends a lease.
func (a *api) release(x *exchange) *problem {
	l, p := x.readLease(releaseFields)
	if p != nil {
		return p
	}
	return a.endLease(x, "released", l, "RL.RELEASE", l.key, l.lease)
}

// extend lets a lease end at another time.
func (a *api) extend(x *exchange) *problem {
	l, p := x.readLease(extendFields)
	switch {
	case p != nil:
		return p
	case l.ttl == "":
		return badRequest(errLeaseTTL)
	}
	return a.endLease(x, "extended", l, "RL.EXTEND", l.key, l.lease, l.ttl)
}

// endLease answers whether there was the lease that a command is about.
func (a *api) endLease(x *exchange, done string, l *leaseRequest, args ...string) *problem {
	if l.lease == "" {
		return badRequest(errLease)
	}
	reply, p := a.askLease(x, args)
	if p != nil {
		return p
	}
	b := append(append(append(x.out[:0], `{"`...), done...), `":`...)
	x.out = append(strconv.AppendBool(b, reply.Int == 1), '}')
	send(x.w, http.StatusOK, typeJSON, x.out)
	return nil
}

// readLease reads a body about a lease.
func (x *exchange) readLease(fields []string) (*leaseRequest, *problem) {
	l := new(leaseRequest)
	if p := x.read(maxBodyBytes, func(r *jsonReader) error { return l.read(r, fields) }); p != nil {
		return nil, p
	}
	if l.key == "" {
		return nil, badRequest(errLeaseKey)
	}
	return l, nil
}

// askLease runs a command, whose reply is no error then.
func (a *api) askLease(x *exchange, args []string) (*resp.Reply, *problem) {
	x.commands = resp.AppendCommand(x.commands[:0], args)
	if p := a.run(x, x.commands); p != nil {
		return nil, p
	}
	reply, err := resp.DecodeReply(x.replies)
	if err == nil {
		err = verdict.ErrorOf(&reply)
	}
	if err != nil {
		return nil, problemOf(err)
	}
	return &reply, nil
}
