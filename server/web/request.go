package web

import (
	"errors"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/headgate-io/headgate/server/verdict"
)

// checkRequest is the body of /v1/check and /v1/reserve, and an element of a batch.
type checkRequest struct {
	verdict.Call
	// chain holds the limits of a call that brings its own.
	chain verdict.LimitCall
	// respond reports that the HTTP status shows the verdict, for example 429.
	respond bool
}

var (
	checkFields   = []string{"policy", "attributes", "cost", "id", "peek", "sync", "fail", "respond", "limits", "wait_ms", "debt", "force"}
	batchedFields = checkFields[:7]
	reserveFields = append(checkFields[:8:8], "ttl")
	settleFields  = []string{"hold", "attributes", "cost"}
	cancelFields  = settleFields[:1]
	batchFields   = []string{"checks"}
)

var (
	errRespond  = errors.New("must be verdict or status")
	errFail     = errors.New("must be open, closed or local")
	errEmptyID  = errors.New("must have 1 to 128 bytes")
	errEmptyTTL = errors.New(`must be a duration, such as "30s"`)
)

// read reads a call whose body may have the given fields: checkFields, reserveFields or a
// part of them.
func (c *checkRequest) read(r *jsonReader, fields []string) error {
	*c = checkRequest{Call: verdict.Call{Attributes: c.Attributes[:0]}, chain: verdict.LimitCall{Limits: c.chain.Limits[:0]}}
	return r.object(fields, func(field int) (err error) {
		switch fields[field] {
		case "policy":
			c.Policy, err = r.text()
		case "attributes":
			c.Attributes, err = readAttributes(r, c.Attributes)
		case "cost":
			c.HasCost = true
			c.Cost, err = r.number()
		case "id":
			if c.ID, err = r.text(); err == nil && c.ID == "" {
				err = errEmptyID
			}
		case "peek":
			c.Peek, err = r.boolean()
		case "force":
			c.Force, err = r.boolean()
		case "sync":
			var wait bool
			if wait, err = r.boolean(); wait {
				c.Sync = verdict.SyncCommit
			} else {
				c.Sync = verdict.SyncNone
			}
		case "fail":
			if c.Fail, err = r.text(); err == nil && c.Fail != "open" && c.Fail != "closed" && c.Fail != "local" {
				err = errFail
			}
		case "ttl":
			if c.TTL, err = r.text(); err == nil && c.TTL == "" {
				err = errEmptyTTL
			}
		case "respond":
			var as string
			if as, err = r.text(); err == nil && as != "verdict" && as != "status" {
				err = errRespond
			}
			c.respond = as == "status"
		default:
			err = readChain(r, fields[field], &c.chain)
		}
		return err
	})
}

// readAttributes reads the attributes of a call and appends them to list. They are an
// object of strings, whole numbers, true and false. null and "" both mean that the
// attribute is absent.
func readAttributes(r *jsonReader, list []verdict.Attribute) ([]verdict.Attribute, error) {
	err := r.members(func(text []byte) (err error) {
		name, value := string(text), ""
		switch r.d.PeekKind() {
		case jsontext.KindString:
			value, err = r.text()
		case jsontext.KindNumber:
			value, err = r.digits()
		case jsontext.KindTrue, jsontext.KindFalse, jsontext.KindNull, jsontext.KindInvalid:
			var t jsontext.Token
			if t, err = r.d.ReadToken(); t.Kind() != jsontext.KindNull {
				value = t.String()
			}
			err = syntax(err)
		default:
			err = r.wrong("the value must be a string, a whole number, true or false")
		}
		list = append(list, verdict.Attribute{Name: name, Value: value})
		return err
	})
	return list, err
}

// readSettlement reads a body with the given fields, which are some of settleFields.
func readSettlement(r *jsonReader, fields []string, s *verdict.Settlement) error {
	return r.object(fields, func(field int) (err error) {
		switch settleFields[field] {
		case "hold":
			s.Hold, err = r.text()
		case "attributes":
			s.Attributes, err = readAttributes(r, s.Attributes[:0])
		case "cost":
			s.HasCost = true
			s.Cost, err = r.number()
		}
		return err
	})
}
