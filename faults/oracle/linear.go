package oracle

import (
	"cmp"
	"fmt"
	"math"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/headgate-io/headgate/faults/history"
)

// keyPatience is how long drawing a failure may take.
const keyPatience = 10 * time.Second

const (
	// maxOrders bounds the orders of one key that the search keeps apart, and so its memory: a key that needs more is not
	// checked.
	maxOrders = 1 << 17
	// maxOpen bounds the calls of one key that are open at a time. Unanswered calls that are alike count once.
	maxOpen = 256
	// maxUnchecked is the share of the calls that may be left unchecked.
	maxUnchecked = 0.01
)

// Linear checks every key whose units do not come back within the run. It searches an order of all its calls, each
// between its start and its end, in which a counter gives exactly the answers that the clients got. Calls without an
// answer may stand anywhere after their start, or have no effect. Pictures of up to three failures are written into
// dir, unless it is empty.
func Linear(h *history.History, dir string) Finding {
	return linearWithin(h, dir, maxOrders)
}

func linearWithin(h *history.History, dir string, orders int) Finding {
	f := Finding{Check: "linear", OK: true}
	type work struct {
		key   *history.Key
		calls []history.Call
	}
	queue := make(chan work)
	var mu sync.Mutex // guards f, and the counts
	var keys, calls, pictures, leftKeys, leftCalls int
	var wg sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			for w := range queue {
				ops := operations(w.key, w.calls)
				ordered, checked := explain(ops, orders)
				mu.Lock()
				switch {
				case !checked:
					leftKeys++
					leftCalls += len(w.calls)
				case !ordered:
					f.violate("%s: no order explains its %d calls", w.key.Name, len(w.calls))
					if dir != "" && pictures < 3 {
						pictures++
						path := filepath.Join(dir, fmt.Sprintf("linear-%d.html", pictures))
						_, info := porcupine.CheckOperationsVerbose(counterModel, ops, keyPatience)
						if err := porcupine.VisualizePath(counterModel, info, path); err == nil {
							f.violate("%s: see %s", w.key.Name, path)
						}
					}
				}
				mu.Unlock()
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
	if leftKeys > 0 {
		f.Text += fmt.Sprintf(", NOT CHECKED: %d calls on %d keys", leftCalls, leftKeys)
	}
	if float64(leftCalls) > maxUnchecked*float64(calls) {
		f.violate("%d of %d calls were not checked: their keys need more than %d orders at a time, or %d open calls", leftCalls, calls, orders, maxOpen)
	}
	return f
}

// order is what is known of some orders that explain the calls so far: what the counter is after them, and which open
// calls have had their place. Only the difference between orders counts, so this stays small however long a history is.
// Where no call is open, all orders of one state are one.
type order struct {
	counterState
	done [maxOpen / 64]uint64 // by slot
}

// search follows a history from one start or end of a call to the next.
type search struct {
	orders  map[order]struct{}
	slots   []porcupine.Operation // the open calls; a free slot has no Input
	classes [maxClasses]struct {  // unanswered calls that are alike
		like porcupine.Operation
		open int
	}
}

// explain reports whether some order explains the operations. checked is false if it needed more than most orders at a
// time.
func explain(ops []porcupine.Operation, most int) (ordered, checked bool) {
	type event struct {
		at  int64
		end bool
		op  int
	}
	var events []event
	for i := range ops {
		events = append(events, event{ops[i].Call, false, i})
		if ops[i].Return != math.MaxInt64 {
			events = append(events, event{ops[i].Return, true, i})
		}
	}
	slices.SortStableFunc(events, func(a, b event) int {
		return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(truth(a.end), truth(b.end)))
	})
	s := search{orders: map[order]struct{}{{}: {}}}
	slotOf := make(map[int]int)
	for _, e := range events {
		switch in := ops[e.op].Input.(counterInput); {
		case e.end:
			if !s.end(slotOf[e.op], most) {
				return len(s.orders) > 0, len(s.orders) == 0
			}
			delete(slotOf, e.op)
		case in.class >= 0:
			c := &s.classes[in.class]
			c.like = ops[e.op]
			c.open++
		default:
			slot := slices.IndexFunc(s.slots, func(o porcupine.Operation) bool { return o.Input == nil })
			if slot < 0 {
				slot = len(s.slots)
				s.slots = append(s.slots, porcupine.Operation{})
			}
			if slot == maxOpen {
				return false, false
			}
			s.slots[slot] = ops[e.op]
			slotOf[e.op] = slot
			orders := make(map[order]struct{}, len(s.orders))
			for o := range s.orders {
				s.read(&o, slot, slot+1)
				orders[o] = struct{}{}
			}
			s.orders = orders
		}
	}
	return true, true
}

// read gives some open calls their place in an order if they never change anything and fit there: denials and peeks. A
// later place would explain no more. For the same reason, end never places an unanswered call where it changes nothing.
func (s *search) read(o *order, from, to int) {
	for i := from; i < to; i++ {
		op := &s.slots[i]
		if op.Input == nil || o.done[i/64]&(1<<(i%64)) != 0 {
			continue
		}
		in, out := op.Input.(counterInput), op.Output.(counterOutput)
		if in.kind == history.Reset || in.cost != 0 && out.outcome != history.Denied {
			continue
		}
		if ok, _ := step(o.counterState, in, out); ok {
			o.done[i/64] |= 1 << (i % 64)
		}
	}
}

// end has a call end, which must have had its place by now. It returns false if no order is left, or if there are too
// many: then some are left.
func (s *search) end(slot, most int) bool {
	word, bit := slot/64, uint64(1)<<(slot%64)
	next := make(map[order]struct{})
	seen := make(map[order]struct{})
	var open []order
	reach := func(o order) {
		s.read(&o, 0, len(s.slots))
		if o.done[word]&bit != 0 {
			o.done[word] &^= bit
			next[o] = struct{}{}
		} else if _, ok := seen[o]; !ok {
			seen[o] = struct{}{}
			open = append(open, o)
		}
	}
	for o := range s.orders {
		reach(o)
	}
	for len(open) > 0 {
		if len(next)+len(seen) > most {
			return false
		}
		o := open[len(open)-1]
		open = open[:len(open)-1]
		for i, op := range s.slots {
			if op.Input == nil || o.done[i/64]&(1<<(i%64)) != 0 {
				continue
			}
			if ok, after := step(o.counterState, op.Input.(counterInput), op.Output.(counterOutput)); ok {
				n := order{after.(counterState), o.done}
				n.done[i/64] |= 1 << (i % 64)
				reach(n)
			}
		}
		for class := range s.classes {
			c := &s.classes[class]
			if rank := int(o.placed[class]); rank < c.open {
				in := c.like.Input.(counterInput)
				in.rank = rank
				if ok, after := step(o.counterState, in, c.like.Output.(counterOutput)); ok && after.(counterState).used != o.used {
					reach(order{after.(counterState), o.done})
				}
			}
		}
	}
	s.orders = next
	s.slots[slot] = porcupine.Operation{}
	return len(next) > 0
}

func truth(b bool) int {
	if b {
		return 1
	}
	return 0
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
