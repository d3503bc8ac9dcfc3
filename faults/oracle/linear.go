package oracle

import (
	"fmt"
	"math"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/headgate-io/headgate/faults/history"
)

// keyPatience is how long the search for one key's order may take. Nearly all need under a millisecond; the problem is
// NP-complete, and a history that no order explains can need the whole search.
const keyPatience = 10 * time.Second

// Linear checks every key whose units do not come back within the run. It searches an order of all its calls, each
// between its start and its end, in which a counter gives exactly the answers that the clients got. Calls without an
// answer may stand anywhere after their start, or have no effect. Pictures of up to three failures are written into
// dir, unless it is empty.
func Linear(h *history.History, dir string) Finding {
	f := Finding{Check: "linear", OK: true}
	type work struct {
		key   *history.Key
		calls []history.Call
	}
	queue := make(chan work)
	var mu sync.Mutex // guards f, and pictures
	var keys, calls, pictures int
	var undecided atomic.Int64
	var wg sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			for w := range queue {
				ops := operations(w.key, w.calls)
				result, info := porcupine.CheckOperationsVerbose(counterModel, ops, keyPatience)
				if result == porcupine.Unknown { // the machine may have stood still meanwhile
					result, info = porcupine.CheckOperationsVerbose(counterModel, ops, keyPatience)
				}
				switch result {
				case porcupine.Unknown:
					undecided.Add(1)
				case porcupine.Illegal:
					mu.Lock()
					f.violate("%s: no order explains its %d calls", w.key.Name, len(w.calls))
					if dir != "" && pictures < 3 {
						pictures++
						path := filepath.Join(dir, fmt.Sprintf("linear-%d.html", pictures))
						if err := porcupine.VisualizePath(counterModel, info, path); err == nil {
							f.violate("%s: see %s", w.key.Name, path)
						}
					}
					mu.Unlock()
				}
			}
		})
	}
	for k, cs := range h.ByKey() {
		if key := &h.Keys[k]; len(cs) > 0 && key.Static(h.Length) && key.Option != history.AtMost && !key.Unjudged {
			keys++
			calls += len(cs)
			queue <- work{key, cs}
		}
	}
	close(queue)
	wg.Wait()
	f.Text = fmt.Sprintf("%d calls on %d keys", calls, keys)
	if n := undecided.Load(); n > 0 {
		f.violate("%d keys undecided after twice %v each", n, keyPatience)
	}
	return f
}

// maxClasses bounds the kinds of unanswered calls of one key between which the search knows no difference.
const maxClasses = 4

// counterState is the state of the model: what is consumed, and how many unanswered calls of each class have had their
// place in the order.
type counterState struct {
	used   int64
	placed [maxClasses]uint16
}

// counterInput is a call as the model sees it.
type counterInput struct {
	kind        history.Kind
	cost, limit int64
	extra       int64 // by how much the limit may be exceeded

	// class and rank order the unanswered calls that are alike. They are open without end, so if an order exists, so
	// does one in which they stand by their start. Without this rule k of them would give 2^k states to search.
	class, rank int
}

type counterOutput struct {
	outcome   history.Outcome
	remaining int64
}

// operations converts the calls that may have had an effect.
func operations(key *history.Key, calls []history.Call) []porcupine.Operation {
	type alike struct {
		kind        history.Kind
		cost, limit int32
	}
	classes := make(map[alike]int)
	var ranks [maxClasses]int
	ops := make([]porcupine.Operation, 0, len(calls))
	for i := range calls {
		c := &calls[i]
		if c.Outcome == history.Refused || c.Local {
			continue
		}
		in := counterInput{kind: c.Kind, cost: int64(c.Cost), limit: int64(c.Limit), extra: int64(key.Extra), class: -1}
		end := c.End
		if c.Outcome == history.Unknown {
			if c.Kind == history.Limit && c.Cost == 0 {
				continue
			}
			end = math.MaxInt64
			a := alike{c.Kind, c.Cost, c.Limit}
			class, ok := classes[a]
			if !ok && len(classes) < maxClasses {
				class, ok = len(classes), true
				classes[a] = class
			}
			if ok {
				in.class, in.rank = class, ranks[class]
				ranks[class]++
			}
		}
		ops = append(ops, porcupine.Operation{
			ClientId: i % 64, Input: in, Call: c.Start, Return: end,
			Output: counterOutput{c.Outcome, int64(c.Remaining)},
		})
	}
	return ops
}

// counterModel is a limit whose units do not come back. It is a fixed window that does not end, or a bucket that gains
// less than a unit.
var counterModel = porcupine.Model{
	Init: func() any { return counterState{} },
	Step: func(state, input, output any) (bool, any) {
		return step(state.(counterState), input.(counterInput), output.(counterOutput))
	},
	DescribeOperation: func(input, output any) string {
		in, out := input.(counterInput), output.(counterOutput)
		return fmt.Sprintf("%v %+d/%d: %v, %d left", in.kind, in.cost, in.limit, out.outcome, out.remaining)
	},
	DescribeState: func(state any) string { return fmt.Sprintf("used %d", state.(counterState).used) },
}

func step(s counterState, in counterInput, out counterOutput) (bool, any) {
	if in.class >= 0 {
		if int(s.placed[in.class]) != in.rank {
			return false, s
		}
		s.placed[in.class]++
	}
	used := s.used
	switch {
	case in.kind == history.Reset:
		used = 0
	case in.cost <= 0:
		used = max(0, used+in.cost)
	case used+in.cost <= in.limit+in.extra:
		used += in.cost
	case out.outcome == history.Admitted:
		return false, s
	default:
		return out.outcome == history.Unknown || out.remaining == max(0, in.limit-used), s
	}
	if out.outcome == history.Denied {
		return false, s
	}
	s.used = used
	return out.outcome == history.Unknown || in.kind == history.Reset || out.remaining == max(0, in.limit-used), s
}
