package web

import (
	"errors"
	"net/http"
	"strconv"

	"github.com/headgate-io/headgate/resp"
	"github.com/headgate-io/headgate/server/fronts"
	"github.com/headgate-io/headgate/server/verdict"
)

// # Slots
//
// RL.ACQUIRE, RL.RELEASE and RL.EXTEND.

// slotsRequest is the body of a request about the slots that an id holds.
type slotsRequest struct {
	key, id, ttl string
	limit, cost  int64
	hasLimit     bool
	hasCost      bool
}

var (
	acquireFields = []string{"key", "limit", "ttl", "id", "cost"}
	extendFields  = []string{"key", "id", "ttl"}
	releaseFields = []string{"key", "id"}
)

var (
	errSlotsKey   = errors.New("key is missing")
	errSlotsLimit = errors.New("limit is missing")
	errSlotsTTL   = errors.New("ttl is missing")
	errSlotsID    = errors.New("id is missing")
)

// read reads a body that may have the given fields.
func (q *slotsRequest) read(r *jsonReader, fields []string) error {
	return r.object(fields, func(field int) (err error) {
		switch fields[field] {
		case "key":
			q.key, err = r.text()
		case "id":
			q.id, err = r.text()
		case "ttl":
			q.ttl, err = r.text()
		case "limit":
			q.hasLimit = true
			q.limit, err = r.number()
		case "cost":
			q.hasCost = true
			q.cost, err = r.number()
		}
		return err
	})
}

// acquire takes slots, or renews those that the id of the body holds.
func (a *api) acquire(x *exchange) *problem {
	q, p := x.readSlots(acquireFields)
	switch {
	case p != nil:
		return p
	case !q.hasLimit:
		return badRequest(errSlotsLimit)
	case q.ttl == "":
		return badRequest(errSlotsTTL)
	}
	args := []string{"RL.ACQUIRE", q.key, strconv.FormatInt(q.limit, 10), q.ttl}
	if q.id != "" {
		args = append(args, "ID", q.id)
	}
	if q.hasCost {
		args = append(args, "COST", strconv.FormatInt(q.cost, 10))
	}
	reply, p := a.askReply(x, args)
	if p != nil {
		return p
	}
	id, passes := reply.Field("id"), numberOf(reply, "allowed") == 1
	x.result = fronts.Of(passes)
	b := strconv.AppendBool(append(x.out[:0], `{"allowed":`...), passes)
	for _, name := range [...]string{"limit", "remaining", "retry_after_ms", "ttl_ms"} {
		b = appendNumber(b, reply, name)
	}
	b = append(b, `,"id":`...)
	if id == nil || id.Type == '_' {
		b = append(b, "null"...)
	} else {
		b = appendText(b, id.Str)
	}
	x.out = append(strconv.AppendBool(append(b, `,"degraded":`...), reply.Field("degraded") != nil), '}')
	send(x.w, http.StatusOK, typeJSON, x.out)
	return nil
}

// release gives back the slots that an id holds.
func (a *api) release(x *exchange) *problem {
	q, p := x.readSlots(releaseFields)
	if p != nil {
		return p
	}
	return a.changeHeld(x, "released", q, "RL.RELEASE", q.key, q.id)
}

// extend sets a new ttl for the slots that an id holds.
func (a *api) extend(x *exchange) *problem {
	q, p := x.readSlots(extendFields)
	switch {
	case p != nil:
		return p
	case q.ttl == "":
		return badRequest(errSlotsTTL)
	}
	return a.changeHeld(x, "extended", q, "RL.EXTEND", q.key, q.id, q.ttl)
}

// changeHeld runs a command about an id, and answers whether the id held slots.
func (a *api) changeHeld(x *exchange, done string, q *slotsRequest, args ...string) *problem {
	if q.id == "" {
		return badRequest(errSlotsID)
	}
	reply, p := a.askReply(x, args)
	if p != nil {
		return p
	}
	b := append(append(append(x.out[:0], `{"`...), done...), `":`...)
	x.out = append(strconv.AppendBool(b, reply.Int == 1), '}')
	send(x.w, http.StatusOK, typeJSON, x.out)
	return nil
}

// readSlots reads a slotsRequest.
func (x *exchange) readSlots(fields []string) (*slotsRequest, *problem) {
	q := new(slotsRequest)
	if p := x.read(maxBodyBytes, func(r *jsonReader) error { return q.read(r, fields) }); p != nil {
		return nil, p
	}
	if q.key == "" {
		return nil, badRequest(errSlotsKey)
	}
	return q, nil
}

// askReply runs a command and returns its reply. It returns a problem if the reply is an
// error.
func (a *api) askReply(x *exchange, args []string) (*resp.Reply, *problem) {
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

// numberOf returns a number of a reply, 0 if the reply does not have it.
func numberOf(reply *resp.Reply, name string) int64 {
	if f := reply.Field(name); f != nil {
		return f.Int
	}
	return 0
}

// appendNumber appends a number of a reply to a JSON object, as a member that is not the
// first.
func appendNumber(b []byte, reply *resp.Reply, name string) []byte {
	b = append(append(append(b, ',', '"'), name...), `":`...)
	return strconv.AppendInt(b, numberOf(reply, name), 10)
}
