package native

import (
	"strconv"
	"strings"
	"time"

	"github.com/headgate-io/headgate/engine"
)

// counting is a script that counts calls in windows: INCR, and EXPIRE at the
// first one. Articles and home-made limiters have it in many forms, which differ
// in the order of their arguments and in what they reply.
type counting struct {
	ttl   int           // which argument is the length of a window
	unit  time.Duration // of it
	limit int           // which argument is the limit, -1 for none
	reply countReply
}

// countReply is what a counting script replies.
type countReply uint8

const (
	replyNothing   countReply = iota
	replyCount                // the count
	replyAllowed              // 1 up to the limit, 0 above
	replyLimited              // 0 up to the limit, 1 above
	replyCountTTL             // the count and the TTL in s
	replyCountPTTL            // the count and the TTL in ms
)

// replyForms are how scripts write each reply, after they have counted; $limit
// stands for the limit. Names of locals do not count, nor does how a command is
// spelt.
var replyForms = map[countReply][]string{
	replyNothing: {""},
	replyCount:   {"return c", "return tonumber(c)"},
	replyAllowed: {
		"if c > $limit then return 0 end return 1", "if c > $limit then return 0 else return 1 end",
		"if c <= $limit then return 1 end return 0", "if c <= $limit then return 1 else return 0 end",
		"if tonumber(c) > $limit then return 0 end return 1", "if tonumber(c) > $limit then return 0 else return 1 end",
		"return c <= $limit and 1 or 0", "return c > $limit and 0 or 1",
	},
	replyLimited: {
		"if c > $limit then return 1 end return 0", "if c > $limit then return 1 else return 0 end",
		"if c <= $limit then return 0 end return 1", "if c <= $limit then return 0 else return 1 end",
		"return c > $limit and 1 or 0",
	},
	replyCountTTL:  {"return {c, redis.call('ttl', KEYS[1])}", "local t = redis.call('ttl', KEYS[1]) return {c, t}"},
	replyCountPTTL: {"return {c, redis.call('pttl', KEYS[1])}", "local t = redis.call('pttl', KEYS[1]) return {c, t}"},
}

// counterScripts are all forms of counting.
func counterScripts() (list []Script) {
	for reply := replyNothing; reply <= replyCountPTTL; reply++ {
		orders := [][2]int{{0, -1}, {1, -1}}
		if reply == replyAllowed || reply == replyLimited {
			orders = [][2]int{{0, 1}, {1, 0}}
		}
		for _, order := range orders {
			for _, unit := range [...]time.Duration{time.Second, time.Millisecond} {
				k := counting{ttl: order[0], limit: order[1], unit: unit, reply: reply}
				list = append(list, Script{
					Library: "INCR and " + strings.ToUpper(k.command()) + " at the first", Instead: k.instead(),
					Forms: k.forms(), run: k.run,
				})
			}
		}
	}
	return list
}

// command is what gives the counter its time to live.
func (k counting) command() string {
	if k.unit == time.Second {
		return "expire"
	}
	return "pexpire"
}

func (k counting) instead() string {
	if k.unit == time.Second {
		return "INCREX key EX seconds ENX"
	}
	return "INCREX key PX milliseconds ENX"
}

// forms are the texts of k.
func (k counting) forms() (list []string) {
	ttl := "ARGV[" + strconv.Itoa(k.ttl+1) + "]"
	limit := "tonumber(ARGV[" + strconv.Itoa(k.limit+1) + "])"
	for _, count := range [...]string{"c", "tonumber(c)"} {
		for _, ttl := range [...]string{ttl, "tonumber(" + ttl + ")"} {
			counts := "local c = redis.call('incr', KEYS[1]) if " + count + " == 1 then redis.call('" + k.command() + "', KEYS[1], " + ttl + ") end "
			for _, reply := range replyForms[k.reply] {
				list = append(list, counts+strings.ReplaceAll(reply, "$limit", limit))
			}
		}
	}
	return list
}

func (k counting) run(c *Call) bool {
	if !c.has(1, max(k.ttl, k.limit)+1) {
		return false
	}
	n, ok := whole(c.Args[k.ttl])
	if !ok {
		return false
	}
	at, ok := c.after(n, k.unit)
	if !ok {
		return false
	}
	limit := int64(0)
	if k.limit >= 0 {
		if limit, ok = whole(c.Args[k.limit]); !ok {
			return false
		}
	}
	v := c.open(c.Keys[0], engine.Counter)
	if v == nil {
		return false
	}
	defer v.Close()
	if n, ok := v.Integer(); v.Exists() && (!ok || n >= maxExact || n <= -maxExact) {
		return false // Lua has no number for it
	}
	count, err := v.Add(1)
	if err != nil {
		return c.failed(err)
	}
	if count == 1 {
		v.SetDeadline(at)
	}
	switch k.reply {
	case replyNothing:
		c.W.Null()
	case replyCount:
		c.W.Int(count)
	case replyAllowed, replyLimited:
		c.W.Int(truth((count <= limit) == (k.reply == replyAllowed)))
	case replyCountTTL:
		c.W.Array(2)
		c.W.Int(count)
		c.W.Int(c.ttl(v))
	case replyCountPTTL:
		c.W.Array(2)
		c.W.Int(count)
		c.W.Int(c.pttl(v))
	}
	return true
}

// truth is 1 for true.
func truth(is bool) int64 {
	if is {
		return 1
	}
	return 0
}
