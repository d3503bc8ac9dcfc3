package web

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"

	"github.com/headgate-io/headgate/server/verdict"
)

const (
	// maxChecks are in a batch.
	maxChecks = 1000
	// chunk of them run at a time, and are answered before the next: what a batch
	// takes is bounded by that.
	chunk = 100
)

var (
	errManyChecks = fmt.Errorf("at most %d checks in a batch", maxChecks)
	errNoChecks   = errors.New("checks is missing")
)

// batch answers independent checks, in order: the status of each is that which
// /v1/check would have answered by respond=status, and that of all is 200.
func (a *api) batch(x *exchange) *problem {
	if x.r.Header[fieldKey] != nil {
		return &problem{status: http.StatusBadRequest, detail: "the checks of a batch are named one by one, by id"}
	}
	if n := x.r.ContentLength; n < 0 || n > maxBodyBytes {
		select {
		case a.large <- struct{}{}:
			defer func() { <-a.large }()
		default:
			return &problem{http.StatusServiceUnavailable, "BUSY", fmt.Sprintf("%d large batches are being answered", maxBatches)}
		}
	}
	// Before any check runs all of the body has been read, and is right.
	var checks []batched
	x.commands = x.commands[:0]
	if p := x.read(maxBatchBytes, func(r *jsonReader) error {
		given := false
		err := r.object(batchFields, func(int) error {
			given = true
			return r.array(func() error {
				if len(checks) == maxChecks {
					return errManyChecks
				}
				err := x.check.read(r, batchedFields)
				if err != nil {
					return fmt.Errorf("check %d: %w", len(checks)+1, err)
				}
				var c batched
				if x.commands, err = x.check.AppendCheck(x.commands); err != nil {
					c.wrong = badRequest(err)
				}
				c.end = len(x.commands)
				checks = append(checks, c)
				return nil
			})
		})
		if err == nil && !given {
			err = errNoChecks
		}
		return err
	}); p != nil {
		return p
	}
	h := x.w.Header()
	h["Content-Type"], h["Cache-Control"] = typeJSON, noStore
	x.out = append(x.out[:0], `{"results":[`...)
	begin := 0
	for len(checks) > 0 {
		n := min(chunk, len(checks))
		end := checks[n-1].end
		a.answer(x, x.commands[begin:end], checks[:n])
		if checks, begin = checks[n:], end; len(checks) > 0 {
			x.out = append(x.out, ',')
			_, _ = x.w.Write(x.out) // an error means that the peer has gone: its context ends
			x.out = x.out[:0]
		}
	}
	_, _ = x.w.Write(append(x.out, "]}"...))
	return nil
}

// batched is a check of a batch.
type batched struct {
	end   int      // of its command among those of all
	wrong *problem // it is not run
}

// answer runs commands of some checks, and appends their results.
func (a *api) answer(x *exchange, commands []byte, checks []batched) {
	var failed *problem
	if len(commands) > 0 {
		failed = a.run(x, commands)
	}
	rest := x.replies
	for i, c := range checks {
		if i > 0 {
			x.out = append(x.out, ',')
		}
		p := c.wrong
		switch {
		case p != nil:
		case failed != nil:
			p = failed
		default:
			var err error
			if rest, err = x.verdict.Read(rest); err != nil {
				p = problemOf(err)
			}
		}
		x.out = appendResult(x.out, &x.verdict, p)
	}
}

// appendResult appends the result of a check: its verdict, or its problem.
func appendResult(b []byte, v *verdict.Verdict, p *problem) []byte {
	b = append(b, `{"status":`...)
	if p != nil {
		b = strconv.AppendInt(b, int64(p.status), 10)
		return append(p.append(append(b, `,"problem":`...)), '}')
	}
	b = strconv.AppendInt(b, int64(v.Status()), 10)
	return append(appendVerdict(append(b, `,"verdict":`...), v), '}')
}
