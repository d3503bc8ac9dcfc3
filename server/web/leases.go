package web

import (
	"errors"
	"net/http"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/headgate-io/headgate/server/fronts"
	"github.com/headgate-io/headgate/server/verdict"
)

// # Leases
//
// RL.LEASE and RL.RETURN.

// leaseRequest is the body of a call about a lease.
type leaseRequest struct {
	key, limit, period string
	policy             string
	attributes         []verdict.Attribute
	id, seq            string
	// options are the command's arguments other than the name. ofLimit is set if one is about the
	// limit of a key.
	options []string
	ofLimit bool
}

var (
	leaseFields  = []string{"policy", "attributes", "key", "limit", "period", "id", "seq", "want", "held", "need", "ttl", "algorithm", "burst", "align", "sync", "fail"}
	returnFields = []string{"policy", "attributes", "key", "id", "seq", "held"}
)

var (
	errLeasePeriod = errors.New("period is missing")
	errLeaseSeq    = errors.New("seq is missing")
	errLeaseBoth   = errors.New("policy and attributes exclude key, limit, period, algorithm, burst and align")
)

// read reads a body with the given fields. It leaves wrong values to the command.
func (q *leaseRequest) read(r *jsonReader, fields []string) error {
	return r.object(fields, func(field int) (err error) {
		var value string
		switch name := fields[field]; name {
		case "key":
			q.key, err = r.text()
		case "policy":
			q.policy, err = r.text()
		case "attributes":
			q.attributes, err = readAttributes(r, q.attributes)
		case "id":
			q.id, err = r.text()
		case "period":
			q.period, err = r.period()
		case "limit":
			q.limit, err = r.digits()
		case "seq":
			q.seq, err = r.digits()
		case "want", "held", "need", "burst":
			value, err = r.digits()
			q.ofLimit = q.ofLimit || name == "burst"
			q.options = append(q.options, strings.ToUpper(name), value)
		case "sync":
			var sync bool
			if sync, err = r.boolean(); sync {
				q.options = append(q.options, "SYNC")
			} else {
				q.options = append(q.options, "ASYNC")
			}
		default:
			value, err = r.text()
			q.ofLimit = q.ofLimit || name == "algorithm" || name == "align"
			q.options = append(q.options, strings.ToUpper(name), value)
		}
		return err
	})
}

// period reads a duration: a text, or a number of seconds.
func (r *jsonReader) period() (string, error) {
	if r.d.PeekKind() == jsontext.KindString {
		return r.text()
	}
	n, err := r.number()
	return strconv.FormatInt(n, 10), err
}

// readLease reads a leaseRequest.
func (x *exchange) readLease(fields []string) (*leaseRequest, *problem) {
	q := new(leaseRequest)
	if p := x.read(maxBodyBytes, func(r *jsonReader) error { return q.read(r, fields) }); p != nil {
		return nil, p
	}
	ofKey := q.key != "" || q.limit != "" || q.period != "" || q.ofLimit
	switch {
	case (q.policy != "" || q.attributes != nil) && ofKey:
		return nil, badRequest(errLeaseBoth)
	case q.policy == "" && q.key == "":
		return nil, badRequest(errSlotsKey)
	case q.id == "":
		return nil, badRequest(errSlotsID)
	case q.seq == "":
		return nil, badRequest(errLeaseSeq)
	}
	if q.policy != "" {
		if err := verdict.CheckAttributes(q.attributes); err != nil {
			return nil, badRequest(err)
		}
	}
	return q, nil
}

// command returns the arguments of a command. limit are those of the limit of a key.
func (q *leaseRequest) command(name string, limit ...string) []string {
	args := append([]string{name, q.key}, limit...)
	if q.policy != "" {
		args = []string{name, "POLICY", q.policy}
		for _, a := range q.attributes {
			args = append(args, a.Name, a.Value)
		}
	}
	return append(append(args, "ID", q.id, "SEQ", q.seq), q.options...)
}

// leaseNumbers are the numbers in the answer, in the answer's order.
var leaseNumbers = [...]string{"limit", "remaining", "retry_after_ms", "reset_after_ms", "delay_ms", "granted", "ttl_ms", "refill", "refill_ms", "holders"}

// lease takes units of a limit, or renews a lease.
func (a *api) lease(x *exchange) *problem {
	q, p := x.readLease(leaseFields)
	switch {
	case p != nil:
		return p
	case q.policy == "" && q.limit == "":
		return badRequest(errSlotsLimit)
	case q.policy == "" && q.period == "":
		return badRequest(errLeasePeriod)
	}
	reply, p := a.askReply(x, q.command("RL.LEASE", q.limit, q.period))
	if p != nil {
		return p
	}
	passes := numberOf(reply, "allowed") == 1
	x.result = fronts.Of(passes)
	b := strconv.AppendBool(append(x.out[:0], `{"allowed":`...), passes)
	for _, name := range leaseNumbers {
		b = appendNumber(b, reply, name)
	}
	x.out = append(strconv.AppendBool(append(b, `,"degraded":`...), reply.Field("degraded") != nil), '}')
	send(x.w, http.StatusOK, typeJSON, x.out)
	return nil
}

// giveBack ends a lease.
func (a *api) giveBack(x *exchange) *problem {
	q, p := x.readLease(returnFields)
	if p != nil {
		return p
	}
	reply, p := a.askReply(x, q.command("RL.RETURN"))
	if p != nil {
		return p
	}
	x.out = append(strconv.AppendInt(append(x.out[:0], `{"returned":`...), reply.Int, 10), '}')
	send(x.w, http.StatusOK, typeJSON, x.out)
	return nil
}
