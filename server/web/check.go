package web

import (
	"errors"
	"net/http"

	"github.com/headgate-io/headgate/server/verdict"
)

func (a *api) check(x *exchange) *problem {
	return a.decide(x, checkFields, (*verdict.Call).AppendCheck)
}

func (a *api) reserve(x *exchange) *problem {
	return a.decide(x, reserveFields, (*verdict.Call).AppendReserve)
}

// decide answers a call whose body may have some fields. command appends the call's command
// to a pipeline.
func (a *api) decide(x *exchange, fields []string, command func(*verdict.Call, []byte) ([]byte, error)) *problem {
	c := &x.check
	if p := x.read(maxBodyBytes, func(r *jsonReader) error { return c.read(r, fields) }); p != nil {
		return p
	}
	if err := nameCall(&c.Call, x.r.Header[fieldKey]); err != nil {
		return badRequest(err)
	}
	if len(c.chain.Limits) > 0 {
		return a.limit(x)
	}
	if c.chain.HasWait || c.chain.HasDebt {
		return badRequest(errOfLimits)
	}
	var err error
	if x.commands, err = command(&c.Call, x.commands[:0]); err != nil {
		return badRequest(err)
	}
	if p := a.ask(x); p != nil {
		return p
	}
	return x.answer(c.Call.Key())
}

// answer writes the verdict. key is the number of the caller for setFields.
func (x *exchange) answer(key uint64) *problem {
	v := &x.verdict
	x.setFields(key)
	if status := v.Status(); x.check.respond && status != http.StatusOK {
		send(x.w, status, typeProblem, appendDenial(x.out[:0], v, status))
		return nil
	}
	x.out = appendVerdict(x.out[:0], v)
	send(x.w, http.StatusOK, typeJSON, x.out)
	return nil
}

func (a *api) commit(x *exchange) *problem {
	return a.settle(x, settleFields, (*verdict.Settlement).AppendCommit)
}

func (a *api) cancel(x *exchange) *problem {
	return a.settle(x, cancelFields, (*verdict.Settlement).AppendCancel)
}

// settle answers a request that settles a hold.
func (a *api) settle(x *exchange, fields []string, command func(*verdict.Settlement, []byte) ([]byte, error)) *problem {
	if p := x.read(maxBodyBytes, func(r *jsonReader) error { return readSettlement(r, fields, &x.settle) }); p != nil {
		return p
	}
	var err error
	if x.commands, err = command(&x.settle, x.commands[:0]); err != nil {
		return badRequest(err)
	}
	if p := a.ask(x); p != nil {
		return p
	}
	x.setFields(0)
	x.out = appendVerdict(x.out[:0], &x.verdict)
	send(x.w, http.StatusOK, typeJSON, x.out)
	return nil
}

// fieldKey is the header field with the id of a call, as in
// draft-ietf-httpapi-idempotency-key-header-07.
const fieldKey = "Idempotency-Key"

var (
	errKey      = errors.New(`Idempotency-Key must be one text of printable ASCII, such as "8e03978e-40d5"`)
	errTwoNames = errors.New("Idempotency-Key and id must be equal when both are given")
)

// nameCall sets the id of a call to the value of Idempotency-Key.
func nameCall(c *verdict.Call, values []string) error {
	if len(values) == 0 {
		return nil
	}
	if len(values) > 1 {
		return errKey
	}
	id, ok := parseKey(values[0])
	switch {
	case !ok:
		return errKey
	case c.ID != "" && c.ID != id:
		return errTwoNames
	}
	c.ID = id
	return nil
}

// parseKey reads an RFC 9651 string. It also accepts text without quotes if the text has no
// spaces, because many clients send such text.
func parseKey(s string) (id string, ok bool) {
	quoted := s != "" && s[0] == '"'
	if quoted {
		s = s[1:]
	}
	var b []byte
	for i := 0; i < len(s); i++ {
		c := s[i]
		switch {
		case c < ' ' || c > '~' || !quoted && (c == ' ' || c == '"' || c == ','):
			return "", false
		case quoted && c == '"':
			return string(b), i == len(s)-1 && len(b) > 0
		case quoted && c == '\\':
			if i++; i == len(s) || s[i] != '"' && s[i] != '\\' {
				return "", false
			}
			c = s[i]
		}
		b = append(b, c)
	}
	return string(b), !quoted && len(b) > 0
}
