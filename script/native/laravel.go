package native

import (
	"bytes"
	"strconv"
	"time"

	"github.com/headgate-io/headgate/engine"
	"github.com/headgate-io/headgate/engine/algo"
	"github.com/headgate-io/headgate/engine/packed"
)

// laravelScripts are the scripts of Laravel: its cache and locks,
// Redis::throttle and Redis::funnel.
var laravelScripts = []Script{
	{
		Library: "laravel cache add", Instead: "SET key value EX seconds NX",
		SHAs:         []string{"a08c9c69b7c07ae2485190873b90d128a23e502d"},
		Fingerprints: []string{"7843fe94e081dad6d9920a523c280422"},
		run:          laravelAdd,
	},
	{
		Library: "laravel lock release",
		SHAs: []string{
			"647c65a442733a1aa440f99908d249d13b4d6c4a",
			"a50243715157b186c5162c69e02eff3bf0c7994a",
		},
		Fingerprints: []string{"b681df00d5d69a1e23e86dff298e7a3b"},
		run:          laravelRelease,
	},
	{
		Library: "laravel throttle", Instead: "CL.THROTTLE key max-1 max decay",
		SHAs:         []string{"29cc07bd431ccbf64637e5dcb60484560fdfa2da"},
		Fingerprints: []string{"cc964e1ba976d8a6c9344f327ffd0d01"},
		run:          laravelThrottle,
	},
	{
		Library: "laravel throttle tooManyAttempts", Instead: "CL.THROTTLE key max-1 max decay 0",
		SHAs:         []string{"1c5d436d6863e949247f4fa66fa1e32b7fa18da9"},
		Fingerprints: []string{"b846c7c21584574d743d402da3a12128"},
		Reads:        true, run: laravelTooMany,
	},
	{
		Library:      "laravel funnel lock",
		SHAs:         []string{"420ca604de4310d8301943a71390ee669720d640"},
		Fingerprints: []string{"27a8571121b630fd695958f9af9ca767"},
		run:          laravelFunnel,
	},
}

// laravelAdd sets a key that does not exist.
func laravelAdd(c *Call) bool {
	stored, ok := c.put(c.after(c.integer(1), time.Second))
	switch {
	case !ok:
		return false
	case stored:
		c.W.OK()
	default:
		c.W.Null()
	}
	return true
}

// laravelRelease deletes a key whose value is its owner's.
func laravelRelease(c *Call) bool {
	owner := c.arg(0)
	v := c.open(0, algo.Counter)
	if v == nil {
		return false
	}
	defer v.Close()
	own := v.Exists() && bytes.Equal(v.Bytes(), owner)
	if own {
		v.Delete()
	}
	c.truth(own)
	return true
}

// Fields of the hash of laravelThrottle: when a window began and when it ends, in s, and
// the number of calls.
var (
	fieldStart = []byte("start")
	fieldEnd   = []byte("end")
	fieldCount = []byte("count")
)

// laravelWindow is the window of a key in a call of either script of Redis::throttle.
// Their arguments are the time in s (with and without fraction), the length of a window
// in s, and the limit.
type laravelWindow struct {
	packed.Hash
	length, most int64
	next         int64  // the end of a window that begins now, in s
	end          []byte // the stored text
	count        int64
	// within is set if the window contains the call's time. Times are compared as texts.
	within bool
}

// openWindow begins a visit to the window of a call. It returns nil if the hash is not a
// window.
func (c *Call) openWindow(w *laravelWindow) *engine.Value {
	now := c.arg(0)
	w.next, w.length, w.most = c.whole(1), c.whole(2), c.whole(3)
	w.next += w.length
	v := c.open(0, algo.Hash)
	if v == nil {
		return nil
	}
	w.Hash = packed.NewHash(v)
	if v.Exists() && !w.read(now) {
		v.Close()
		return nil
	}
	return v
}

// read reads the window of an existing hash; ok is false for a hash that is not
// a window.
func (w *laravelWindow) read(now []byte) (ok bool) {
	start, ok := w.Get(fieldStart)
	if !ok {
		return false
	}
	if bytes.Compare(now, start) < 0 {
		return true
	}
	if w.end, ok = w.Get(fieldEnd); !ok || bytes.Compare(now, w.end) > 0 {
		return ok
	}
	w.within = true
	count, ok := w.Get(fieldCount)
	if !ok {
		return false
	}
	w.count, ok = whole(count)
	return ok
}

// laravelThrottle counts a call in a window of the caller's time.
func laravelThrottle(c *Call) bool {
	var w laravelWindow
	v := c.openWindow(&w)
	if v == nil {
		return false
	}
	defer v.Close()
	if !w.within {
		at := c.after(2*w.length, time.Second)
		if c.odd {
			return false
		}
		c.fields = append(c.fields[:0], fieldStart, c.Args[1], fieldEnd, strconv.AppendInt(c.text[:0], w.next, 10), fieldCount, digitOne)
		if _, err := w.SetAll(c.fields); err != nil {
			return c.failed(err)
		}
		v.SetDeadline(at)
		c.W.Array(3)
		c.W.Int(1)
		c.W.Int(w.next)
		c.W.Int(w.most - 1)
		return true
	}
	count := w.count + 1
	if _, err := w.Set(fieldCount, strconv.AppendInt(c.text[:0], count, 10)); err != nil {
		return c.failed(err)
	}
	end, _ := w.Get(fieldEnd)
	c.W.Array(3)
	if count <= w.most {
		c.W.Int(1)
	} else {
		c.W.Null()
	}
	c.W.Bulk(end)
	c.W.Int(w.most - count)
	return true
}

var digitOne = []byte("1")

// laravelTooMany replies as laravelThrottle would, but counts nothing.
func laravelTooMany(c *Call) bool {
	var w laravelWindow
	v := c.openWindow(&w)
	if v == nil {
		return false
	}
	defer v.Close()
	c.W.Array(2)
	if !w.within {
		c.W.Int(0)
		c.W.Int(w.next)
		return true
	}
	c.W.Bulk(w.end)
	c.W.Int(w.most - w.count)
	return true
}

// laravelFunnel takes the first free slot, and replies its name.
func laravelFunnel(c *Call) bool {
	at := c.after(c.integer(1), time.Second)
	name, owner := c.arg(0), c.arg(2)
	return c.isolate(1) && c.finish(c.takeSlot(name, owner, at))
}

func (c *Call) takeSlot(name, owner []byte, at int64) bool {
	for i, key := range c.Keys {
		_, taken, err := c.Sess.Get(c.Now, key, c.text[:0])
		if err != nil {
			return c.failed(err)
		}
		if taken {
			continue
		}
		if _, err := c.Sess.Set(c.Now, key, owner, &engine.SetOptions{Deadline: at}); err != nil {
			return c.failed(err)
		}
		c.W.Bulk(strconv.AppendInt(append(c.text[:0], name...), int64(i+1), 10))
		return true
	}
	c.W.Null()
	return true
}
