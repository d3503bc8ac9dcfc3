package native

import (
	"bytes"
	"math"
	"strconv"
	"time"

	"github.com/headgate-io/headgate/engine/algo"
	"github.com/headgate-io/headgate/engine/packed"
	"github.com/headgate-io/headgate/script/lua"
)

// limitsScripts are the scripts of limits, which Flask-Limiter and slowapi use.
var limitsScripts = []Script{
	{
		Library: "limits fixed window", Instead: "INCREX key BYINT amount EX seconds ENX",
		SHAs:         []string{"628bd136a573a06b346879695681af12ccef300f"},
		Counts:       true,
		Fingerprints: []string{"21c945da9d24955b2a82a668101f49fd"},
		run:          limitsFixed,
	},
	{
		Library: "limits moving window acquire 5", Instead: movingInstead,
		SHAs:         []string{"741eab638ba93ed71020bb821c45c022d0fa02c4"},
		Fingerprints: []string{"6714d241d8bbb69bb94e1218ba557905"},
		run:          limitsMoving,
	},
	{
		Library: "limits moving window acquire 3", Instead: movingInstead,
		SHAs:         []string{"19c9778cd6391e2ee9f90aa518bf56256d15b4ae"},
		Fingerprints: []string{"22e68ca65b6867c4c0b45fc6eb5234d1"},
		run:          limitsMoving,
	},
	{
		Library: "limits moving window read 5", Instead: movingInstead + " PEEK",
		SHAs:         []string{"ad795214f59fe26d6fdec07973836dd16586f5ec"},
		Fingerprints: []string{"f502c165f8bed1fa31111973cc307de3"},
		Reads:        true, run: func(c *Call) bool { return c.limitsMovingRead(true) },
	},
	{
		Library: "limits moving window read 4", Instead: movingInstead + " PEEK",
		SHAs:         []string{"f2ef2962263bbe72f66f5bbd0da234e74d880068"},
		Fingerprints: []string{"480ee19038c5be7695c5ba6be657d7c7"},
		Reads:        true, run: func(c *Call) bool { return c.limitsMovingRead(false) },
	},
	{
		Library: "limits sliding window acquire", Instead: slidingInstead,
		SHAs:         []string{"e8ac2a60cb040b0dbb56815a1e9c6fd032ce62e7"},
		Fingerprints: []string{"7c248c9eda03cbc07ef1282e5f619134"},
		run:          limitsSliding,
	},
	{
		Library: "limits sliding window read", Instead: slidingInstead + " PEEK",
		SHAs:         []string{"e7a0a27d4101baabb124af209bb0245197a359a1"},
		Fingerprints: []string{"b4a7b91cd6018014383eb1add610cdb7"},
		run:          limitsSlidingRead,
	},
}

const (
	movingInstead  = "RL.LIMIT key limit period ALGORITHM log"
	slidingInstead = "RL.LIMIT key limit period ALGORITHM sliding"
)

// limitsFixed adds to a counter, which expires some seconds after its first addition.
func limitsFixed(c *Call) bool {
	at, amount := c.after(c.integer(0), time.Second), c.whole(1)
	sum, ok := c.count(amount, at)
	if ok {
		c.W.Int(sum)
	}
	return ok
}

// maxMoments bounds the units of a call that runs here.
const maxMoments = 256

// limitsMoving records the time of the call once for each unit, if the window has room.
// They are in a list, latest first.
func limitsMoving(c *Call) bool {
	now, limit, seconds, amount := c.number(0), c.whole(1), c.whole(2), c.whole(3)
	at := c.after(seconds, time.Second)
	c.expect(amount >= 1 && amount <= maxMoments && limit >= 1 && limit <= packed.MaxElements)
	v := c.open(0, algo.List)
	if v == nil {
		return false
	}
	defer v.Close()
	if amount > limit {
		c.W.Null()
		return true
	}
	l := packed.NewList(v)
	n := l.Len()
	if n-int(limit) > maxMoved || min(int(limit-amount), n-int(limit-amount)) > maxMoved {
		return false
	}
	if i := int(limit - amount); i < n {
		oldest, ok := number(l.At(i))
		if !ok {
			return false
		}
		if oldest >= now-float64(seconds) {
			c.W.Null()
			return true
		}
	}
	text, ok := appendPassed(c.text[:0], now)
	if !ok {
		return false
	}
	c.fields = c.fields[:0]
	for range amount {
		c.fields = append(c.fields, text)
	}
	if err := l.PushFrontTo(int(limit), c.fields); err != nil {
		return c.failed(err)
	}
	v.SetDeadline(at)
	c.W.Int(1)
	return true
}

// limitsMovingRead replies the oldest time in the window, and how many times there are. It
// finds them by halving the list, or by walking through it. The first argument is the start
// of the window, and the second is the limit.
func (c *Call) limitsMovingRead(halves bool) bool {
	begin, limit := c.number(0), c.whole(1)
	c.expect(finite(begin) && limit >= 0 && limit <= packed.MaxElements)
	v := c.open(0, algo.List)
	if v == nil {
		return false
	}
	defer v.Close()
	l := packed.NewList(v)
	if l.Len() > maxMoved {
		return false
	}
	var oldest float64
	var n int
	ok := true
	if halves {
		oldest, n = searchMoments(&l, begin, int(limit))
	} else {
		oldest, n, ok = walkMoments(&l, begin, int(limit))
	}
	switch {
	case !ok:
		return false
	case n == 0:
		c.W.Null()
	default:
		c.W.Array(2)
		c.W.Bulk(lua.AppendNumber(c.text[:0], oldest))
		c.W.Int(int64(n))
	}
	return true
}

// searchMoments treats a text that is not a number as absent.
func searchMoments(l *packed.List, begin float64, most int) (oldest float64, n int) {
	for low, high := 0, most-1; low <= high; {
		mid := (low + high) / 2
		moment, there := 0.0, mid < l.Len()
		if there {
			moment, there = number(l.At(mid))
		}
		if there && moment >= begin {
			oldest, n, low = moment, mid+1, mid+1
		} else {
			high = mid - 1
		}
	}
	return oldest, n
}

// walkMoments sets ok to false if a text is not a number.
func walkMoments(l *packed.List, begin float64, most int) (oldest float64, n int, ok bool) {
	for _, e := range l.Range(0, min(most+1, l.Len())) {
		moment, ok := number(e)
		if !ok {
			return 0, 0, false
		}
		if moment < begin {
			break
		}
		if n == 0 || moment < oldest {
			oldest = moment
		}
		n++
	}
	return oldest, n, true
}

// The sliding window has two counters. The counter of the present window lives for two
// windows. The other counter is that of the previous window, which was renamed. Their times
// to live serve as the clock.

// slidingWindow has both counters in a call.
type slidingWindow struct {
	length        int64 // ms
	previous      int64
	previousLeft  int64 // ms
	current, left int64
	exists        bool // the present window has a counter
}

// limitsSliding takes units if both counters together have room for them. The previous
// counter counts in proportion to the part of its window that still matters.
func limitsSliding(c *Call) bool {
	limit, amount := c.whole(0), c.whole(2)
	w, ok := c.holdWindows(1)
	return ok && c.finish(c.slidingTake(&w, limit, amount))
}

// holdWindows locks two counters, for windows whose length in s is an argument.
func (c *Call) holdWindows(length int) (w slidingWindow, ok bool) {
	seconds := c.whole(length)
	c.expect(seconds > 0 && seconds <= maxSpan/2000)
	c.expect(len(c.Keys) >= 2 && !bytes.Equal(c.Keys[0], c.Keys[1]))
	return slidingWindow{length: seconds * 1000}, c.isolate(2)
}

func (c *Call) slidingTake(w *slidingWindow, limit, amount int64) bool {
	if amount > limit {
		c.W.Null()
		return true
	}
	v := c.open(1, algo.Counter)
	if v == nil {
		return false
	}
	count, whole := v.Integer()
	w.exists, w.left = v.Exists(), c.pttl(v)
	v.Close()
	if w.exists && (!whole || !exact(count)) {
		return false
	}
	if w.left > 0 && w.left < w.length {
		w.previous, w.previousLeft = count, w.left
		if !c.slide(w) {
			return false
		}
	} else {
		w.current = count
		if v = c.open(0, algo.Counter); v == nil {
			return false
		}
		w.previous, whole = v.Integer()
		there, left := v.Exists(), c.pttl(v)
		v.Close()
		if there && (!whole || !exact(w.previous)) {
			return false
		}
		w.previousLeft = max(left, 0)
	}
	product := float64(w.previous) * float64(w.previousLeft)
	weighted := math.Floor(product/float64(w.length)) + float64(w.current)
	if weighted+float64(amount) > float64(limit) {
		c.W.Null()
		return true
	}
	if v = c.open(1, algo.Counter); v == nil {
		return false
	}
	defer v.Close()
	if w.exists {
		if _, ok := c.add(v, amount); !ok {
			return false
		}
	} else if !c.start(v, amount, c.Now+2*w.length*int64(time.Millisecond)) {
		return false
	}
	c.W.Int(1)
	return true
}

// slide makes the counter of the present window, which is over, the former counter. It
// begins another at 0.
func (c *Call) slide(w *slidingWindow) bool {
	if _, err := c.Sess.Rename(c.Now, c.Keys[1], c.Keys[0], c.Sess.Database(), true); err != nil {
		return c.failed(err)
	}
	v := c.open(1, algo.Counter)
	if v == nil {
		return false
	}
	defer v.Close()
	w.left += w.length
	return c.start(v, 0, c.Now+w.left*int64(time.Millisecond))
}

// limitsSlidingRead replies the text of both counters and their remaining times, after
// the windows have moved on.
func limitsSlidingRead(c *Call) bool {
	w, ok := c.holdWindows(0)
	return ok && c.finish(c.slidingRead(&w))
}

func (c *Call) slidingRead(w *slidingWindow) bool {
	start := len(c.W.B)
	c.W.Array(4)
	if _, ok := c.slidingCounter(0); !ok {
		return false
	}
	left, ok := c.slidingCounter(1)
	if !ok || left <= 0 || left >= w.length {
		return ok
	}
	w.left = left
	if !c.slide(w) {
		return false
	}
	c.W.B = c.W.B[:start]
	c.W.Array(4)
	if _, ok = c.slidingCounter(0); !ok {
		return false
	}
	c.W.Bulk(strconv.AppendInt(c.text[:0], 0, 10))
	c.W.Int(w.left)
	return true
}

// slidingCounter replies the text of a counter, which need not be a number, and the
// counter's remaining time. It also returns that time.
func (c *Call) slidingCounter(key int) (left int64, ok bool) {
	v := c.open(key, algo.Counter)
	if v == nil {
		return 0, false
	}
	defer v.Close()
	if v.Exists() {
		c.W.Bulk(v.Bytes())
	} else {
		c.W.Null()
	}
	left = c.pttl(v)
	c.W.Int(left)
	return left, true
}
