package web

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"sync/atomic"

	"github.com/headgate-io/headgate/server/fronts"
	"github.com/headgate-io/headgate/server/verdict"
)

const (
	// maxChecks bounds the checks of a batch.
	maxChecks = 1000
	// firstChunk is how many checks of a batch run first. The server writes their results
	// before the next checks run, which bounds the memory of a batch. If the verdicts are
	// short, the next chunks are larger, up to maxChunk, so that each chunk gives about
	// writePiece bytes of results.
	firstChunk = 16
	maxChunk   = 100
	// checkMemory bounds the memory of a running check, in bytes: a verdict of 16 limits as
	// RESP3 and as JSON.
	checkMemory = 16 << 10
	// bodyMemory bounds the memory per byte of a body: the byte itself, and its part of the
	// command.
	bodyMemory = 4
	// maxBatchMemory bounds the memory of all batches and long bodies together, in bytes.
	// The first maxBodyBytes of each body do not count.
	maxBatchMemory = 128 << 20
)

var (
	errManyChecks = fmt.Errorf("at most %d checks in a batch", maxChecks)
	errNoChecks   = errors.New("checks is missing")
)

// batch runs independent checks and answers with their results in the same order, with
// status 200. Each result has the status that /v1/check with respond=status would have
// answered.
func (a *api) batch(x *exchange) *problem {
	if x.r.Header[fieldKey] != nil {
		return &problem{status: http.StatusBadRequest, detail: "Idempotency-Key cannot name a batch: give each check an id"}
	}
	if p := x.receive(maxBatchBytes); p != nil {
		return p
	}
	if p := x.take(bodyMemory*len(x.body) + firstChunk*checkMemory); p != nil {
		return p
	}
	// Read and check the whole body before any check runs.
	var checks []batched
	x.commands = x.commands[:0]
	if p := x.parse(func(r *jsonReader) error {
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
	begin, next := 0, firstChunk
	for len(checks) > 0 {
		n := min(next, len(checks))
		more := max(0, n-firstChunk) * checkMemory
		if x.take(more) != nil {
			n, more = firstChunk, 0
		}
		end := checks[n-1].end
		a.answer(x, x.commands[begin:end], checks[:n])
		if checks, begin = checks[n:], end; len(checks) > 0 {
			next = max(1, min(maxChunk, n*writePiece/len(x.out)))
			x.out = append(x.out, ',')
			if _, err := x.w.Write(x.out); err != nil {
				return nil // the peer has gone
			}
			x.out = emptied(x.out)
			x.giveBack(more)
		}
	}
	_, _ = x.w.Write(append(x.out, "]}"...))
	return nil
}

// batched is a check of a batch.
type batched struct {
	end   int      // the end of the check's command among the commands of all checks
	wrong *problem // if not nil, the check does not run
}

// answer runs the commands of some checks, and appends their results.
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
		result := fronts.Of(x.verdict.Allowed)
		if p != nil {
			result = resultOf(p)
		}
		x.result = max(x.result, result)
		x.out = appendResult(x.out, &x.verdict, p)
	}
	x.replies = emptied(x.replies)
}

// appendResult appends the result of a check: its verdict or its problem.
func appendResult(b []byte, v *verdict.Verdict, p *problem) []byte {
	b = append(b, `{"status":`...)
	if p != nil {
		b = strconv.AppendInt(b, int64(p.status), 10)
		return append(p.append(append(b, `,"problem":`...)), '}')
	}
	b = strconv.AppendInt(b, int64(v.Status()), 10)
	return append(appendVerdict(append(b, `,"verdict":`...), v), '}')
}

// # The memory of batches

// budget is the rest of a bound in bytes. What is taken from the budget is also reserved in
// an account.
type budget struct {
	left    atomic.Int64
	account func(n int) bool // see Config.Memory
}

// take takes n bytes and reports whether that many were left.
func (b *budget) take(n int) bool {
	if b.left.Add(-int64(n)) >= 0 && b.account(n) {
		return true
	}
	b.left.Add(int64(n))
	return false
}

func (b *budget) give(n int) {
	b.left.Add(int64(n))
	b.account(-n)
}

var errNoMemory = &problem{http.StatusServiceUnavailable, "BUSY",
	fmt.Sprintf("long bodies and batches take %d MiB, or all clients together take maxmemory-clients", maxBatchMemory>>20)}

// take takes n bytes for the exchange, until the exchange ends. If too few bytes are left,
// take returns a problem and closes the connections of clients that do not read their
// answers. The next batch may then find room.
func (x *exchange) take(n int) *problem {
	if !x.memory.take(n) {
		x.conns.endStuck()
		return errNoMemory
	}
	x.taken += n
	return nil
}

// giveBack gives back n of the bytes that the exchange has taken.
func (x *exchange) giveBack(n int) {
	x.memory.give(n)
	x.taken -= n
}
