package native

import (
	"math"
	"time"

	"github.com/headgate-io/headgate/engine/algo"
	"github.com/headgate-io/headgate/engine/packed"
)

// slidingLogScripts keep the times of the calls that passed in a sorted set.
var slidingLogScripts = []Script{{
	Library: "ZREMRANGEBYSCORE, ZCARD and ZADD", Instead: "RL.LIMIT key limit window ALGORITHM log", forms: slidingLogForms,
}}

// slidingLog is what differs between these scripts.
type slidingLog struct {
	now, window, limit int // indexes of the arguments
	// member is the index of the argument with the member, -1 if the member is the time.
	member  int
	raw     bool // the time is the argument's text, not its number
	below   bool // times before 0 are removed too
	ttl     span
	yes, no verdict
}

// verdict is the reply to a call that passes, or does not. It is a number or, with left,
// whether the call passes and how many calls are left.
type verdict struct {
	n    int64
	left bool
}

func (d *verdict) reply(c *Call, passed bool, left int64) {
	if !d.left {
		c.W.Int(d.n)
		return
	}
	c.W.Array(2)
	c.W.Int(truth(passed))
	c.W.Int(left)
}

// span is a time to live: the window's, or a constant, in some unit.
type span struct {
	unit   time.Duration
	length int64 // 0 if it is the window
	scale  int64 // what the window is divided by, rounded up
}

// slidingLogForms returns the texts.
func slidingLogForms() (list []form) {
	seconds := func(s *slidingLog) { s.ttl.unit = time.Second }
	milliseconds := func(s *slidingLog) { s.ttl.unit = time.Millisecond }
	const add, counted = "redis.call('zadd', KEYS[1], TIME, WHAT) KEEP", "local n = redis.call('zcard', KEYS[1]) "
	expand("FIRST "+counted+"BODY", slidingLog{}, []choice[slidingLog]{
		{"FIRST", []option[slidingLog]{
			{"redis.call('zremrangebyscore', KEYS[1], 9007, TIME - SPAN)", nil},
			{"local start = TIME - SPAN redis.call('zremrangebyscore', KEYS[1], 9007, start)", nil},
		}},
		{"BODY", []option[slidingLog]{
			{"if n < LIMIT then " + add + " PASSES end FAILS", nil},
			{"if n < LIMIT then " + add + " PASSES else FAILS end", nil},
			{"if n >= LIMIT then FAILS end " + add + " PASSES", nil},
		}},
		{"KEEP", []option[slidingLog]{
			{"redis.call('expire', KEYS[1], SPAN)", seconds},
			{"redis.call('pexpire', KEYS[1], SPAN)", milliseconds},
			{"redis.call('expire', KEYS[1], math.ceil(SPAN / 9009))", seconds},
			{"redis.call('expire', KEYS[1], 9008)", seconds},
			{"redis.call('pexpire', KEYS[1], 9008)", milliseconds},
		}},
		{"PASSES|FAILS", []option[slidingLog]{
			{"return 9012|return 9013", nil},
			{"return {1, LIMIT - n - 1}|return {0, 0}", func(s *slidingLog) { s.yes.left, s.no.left = true, true }},
		}},
		{"WHAT", []option[slidingLog]{{"TIME", nil}, {"ARGV[9006]", nil}}},
		{"TIME|SPAN", []option[slidingLog]{
			{"tonumber(ARGV[9003])|tonumber(ARGV[9002])", nil},
			{"ARGV[9003]|ARGV[9002]", func(s *slidingLog) { s.raw = true }},
		}},
	}, func(text string, s slidingLog) {
		list = append(list, form{text: spelt(text), bind: s.bind})
	})
	return list
}

func (s slidingLog) bind(p *params) func(c *Call) bool {
	s.now, s.window, s.limit, s.member = p.arg(argNow), p.arg(argWindow), p.arg(argLimit), p.arg(argMember)
	if s.now < 0 || s.window < 0 || s.limit < 0 || p.has(argMember) && s.member < 0 {
		return nil
	}
	if from, ok := p.text(constFrom); ok {
		if s.below = from == "-inf"; !s.below && from != "0" {
			return nil
		}
	} else if from, ok := p.number(constFrom); !ok || from != 0 {
		return nil
	}
	for _, c := range [...]struct {
		param int
		to    *int64
	}{{constTTL, &s.ttl.length}, {constScale, &s.ttl.scale}, {constYes, &s.yes.n}, {constNo, &s.no.n}} {
		if p.has(c.param) && !p.whole(c.param, c.to) {
			return nil
		}
	}
	if p.has(constTTL) && s.ttl.length <= 0 || p.has(constScale) && s.ttl.scale <= 0 {
		return nil
	}
	return s.run
}

// deadline returns when a key expires that gets the time to live now.
func (s *span) deadline(c *Call, window float64) (at int64) {
	n := s.length
	if n == 0 {
		if s.scale > 0 {
			window = math.Ceil(window / float64(s.scale))
		}
		n = int64(window)
		c.expect(float64(n) == window)
	}
	return c.after(n, s.unit)
}

// maxForgotten is how many members a call may remove here. The Lua, which can leave the
// event loop, handles more.
const maxForgotten = 1000

func (s slidingLog) run(c *Call) bool {
	now, window, limit := c.plainNumber(s.now), c.plainNumber(s.window), c.whole(s.limit)
	at := s.ttl.deadline(c, window)
	if s.raw && s.ttl.length == 0 && s.ttl.scale == 0 {
		c.whole(s.window) // as EXPIRE is handed it
	}
	member := c.arg(s.now)
	if s.member >= 0 {
		member = c.arg(s.member)
	} else if !s.raw {
		var ok bool
		member, ok = appendPassed(c.text[:0], now)
		c.expect(ok)
	}
	v := c.open(0, algo.SortedSet)
	if v == nil {
		return false
	}
	defer v.Close()
	z := packed.NewSortedSet(v)
	from := 0
	if !s.below {
		from = z.Below(0, false)
	}
	to := max(z.Below(now-window, true), from)
	n := int64(z.Len() - (to - from))
	if to-from > maxForgotten {
		return false
	}
	if to > from {
		z.RemoveRange(from, to)
	}
	if n >= limit {
		if v.Exists() && n == 0 {
			v.Delete()
		}
		s.no.reply(c, false, 0)
		return true
	}
	// If there is no room the Lua runs, which begins by removing the same members.
	if _, err := z.Put(member, now+0); err != nil {
		return c.failed(err)
	}
	v.SetDeadline(at)
	s.yes.reply(c, true, limit-n-1)
	return true
}
