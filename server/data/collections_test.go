package data_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/engine/packed"
	"github.com/headgate-io/headgate/internal/redistest"
	"github.com/headgate-io/headgate/resp"
)

func replaceKey(line, key string) string { return strings.Replace(line, "%s", key, 1) }

// inAnyOrder runs commands on both servers whose replies list what has no order,
// and demands the same elements.
func inAnyOrder(p *redistest.Pair, lines ...string) {
	p.T.Helper()
	for _, line := range lines {
		require.Equal(p.T, sorted(p.T, p.Redis(line)), sorted(p.T, p.Ours(line)), line)
	}
}

// sorted returns a reply with the elements of each list, and the pairs of each
// map, in order.
func sorted(t testing.TB, reply string) string {
	r, err := resp.DecodeReply([]byte(reply))
	require.NoError(t, err)
	return canonical(&r)
}

func canonical(r *resp.Reply) string {
	step := 1
	if r.Type == '%' {
		step = 2
	}
	var parts []string
	for i := 0; i < len(r.Elems); i += step {
		text := ""
		for j := i; j < i+step; j++ {
			text += canonical(&r.Elems[j])
		}
		parts = append(parts, text)
	}
	slices.Sort(parts)
	return fmt.Sprintf("%c%d%q%q", r.Type, r.Int, r.Str, parts)
}

func TestScansOfCollections(t *testing.T) {
	inBoth(t, func(p *redistest.Pair) {
		p.Same(
			`HSET h a1 1 b2 2 a3 3`, `ZADD z 1 a1 2.5 b2 -inf a3`, `SADD s 1 2 13`,
			`HSCAN h 0`, `HSCAN h 0 MATCH a*`, `HSCAN h 0 COUNT 1`, `HSCAN h 7 MATCH *2 COUNT 100`, `HSCAN h 0 MATCH none`, `HSCAN none 0`, `HSCAN none 5 BAD`,
			`ZSCAN z 0`, `ZSCAN z 0 MATCH a*`, `ZSCAN none 0`, `SSCAN s 0`, `SSCAN s 0 MATCH 1*`, `SSCAN none 0`, `SSCAN none x`,
			`HSCAN h x`, `HSCAN h ""`, `HSCAN h " 1"`, `HSCAN h -1`, `HSCAN h +1`, `HSCAN h 1x`, `HSCAN h 99999999999999999999`, `HSCAN h 18446744073709551615`,
			`HSCAN h 0 COUNT`, `HSCAN h 0 COUNT x`, `HSCAN h 0 COUNT 0`, `HSCAN h 0 COUNT -1`, `HSCAN h 0 MATCH`, `HSCAN h 0 BAD 1`, `HSCAN h 0 TYPE hash`, `HSCAN h`, `SSCAN s`, `ZSCAN`,
		)
	})
}

func TestLargeCollections(t *testing.T) {
	if testing.Short() {
		t.Skip("one goroutine, and long under the race detector: make main runs it")
	}
	const n = 5000 // more than a loop handles itself
	var fields, members, scores []string
	for i := range n {
		fields = append(fields, fmt.Sprintf("f%d %d", i, i))
		members = append(members, fmt.Sprintf("m%d", i))
		scores = append(scores, fmt.Sprintf("%d m%d", i%100, i))
	}
	join := func(name string, words []string) string { return name + " " + strings.Join(words, " ") }
	inBoth(t, func(p *redistest.Pair) {
		p.Same(join("HSET h", fields), join("SADD s", members), join("ZADD z", scores), join("RPUSH l", members),
			`HLEN h`, `SCARD s`, `ZCARD z`, `LLEN l`, `HGET h f4999`, `SISMEMBER s m77`, `ZSCORE z m4242`, `LINDEX l 2500`,
			`ZRANGE z 0 -1 WITHSCORES`, `ZREVRANGE z 0 -1`, `ZRANGEBYSCORE z 10 20 LIMIT 5 700`, `ZRANK z m4242`, `ZCOUNT z 5 (90`, `LRANGE l 0 -1`, `LPOS l m4000`, `LPOS l m3 COUNT 0`,
			join("HMGET h", members[:1500]), join("SMISMEMBER s", members[:1500]), join("ZMSCORE z", members[:1500]), join("RPUSHX l", members[:1200]))
		inAnyOrder(p, `HGETALL h`, `HKEYS h`, `HVALS h`, `SMEMBERS s`, `SUNION s s2`, `SDIFF s none`, `SINTER s s`, `HRANDFIELD h 6000`, `SRANDMEMBER s 6000`)
		for _, line := range []string{`HSCAN h 0`, `SSCAN s 0 MATCH *`, `ZSCAN z 0 COUNT 10`} {
			r, err := resp.DecodeReply([]byte(p.Ours(line)))
			require.NoError(t, err)
			require.Equal(t, "0", r.Elems[0].Str)
			require.GreaterOrEqual(t, len(r.Elems[1].Elems), n)
		}
		p.Same(`SCARD s`, `ZREMRANGEBYSCORE z 10 60`, `ZREMRANGEBYRANK z 100 2000`, `ZCARD z`, `ZPOPMIN z 150`, `LTRIM l 10 -10`, `LREM l 0 m20`, `LREM l -1 m21`, `LPOP l 1100`, `RPOP l 1500`, `LLEN l`,
			join("HDEL h", members[:1500]), join("SREM s", members[:2500]), join("ZREM z", members[:3000]), `SCARD s`, `ZCARD z`, `ZRANGE z 0 -1`, `LRANGE l 0 -1`,
			`MULTI`, `LRANGE l 0 -1`, `ZRANGE z 0 -1`, `EXEC`)
		p.Redis(`SPOP s 2000`)
		p.Ours(`SPOP s 2000`)
		p.Same(`SCARD s`, `DEL h s z l`)
	})
}

func TestRandomEntries(t *testing.T) {
	inBoth(t, func(p *redistest.Pair) {
		p.Same(
			`HSET h a 1`, `SADD s 1`, `ZADD z 1.5 a`,
			`HRANDFIELD h`, `HRANDFIELD h 1`, `HRANDFIELD h 5`, `HRANDFIELD h 1 WITHVALUES`, `HRANDFIELD h -3`, `HRANDFIELD h -2 withvalues`, `HRANDFIELD h 0`, `HRANDFIELD h 0 WITHVALUES`,
			`HRANDFIELD none`, `HRANDFIELD none 2`, `HRANDFIELD none -2 WITHVALUES`, `HRANDFIELD h x`, `HRANDFIELD h 1 x`, `HRANDFIELD h x y`, `HRANDFIELD h 1 WITHVALUES x`, `HRANDFIELD h`,
			`HRANDFIELD h -9223372036854775808`, `HRANDFIELD h 9223372036854775807`, `HRANDFIELD h 9223372036854775807 WITHVALUES`, `HRANDFIELD h -9223372036854775807 WITHVALUES`,
			`SRANDMEMBER s`, `SRANDMEMBER s 1`, `SRANDMEMBER s 3`, `SRANDMEMBER s -3`, `SRANDMEMBER s 0`, `SRANDMEMBER none`, `SRANDMEMBER none 1`, `SRANDMEMBER s x`, `SRANDMEMBER s 1 2`, `SRANDMEMBER s x 2`, `SRANDMEMBER s -9223372036854775808`,
			`ZRANDMEMBER z`, `ZRANDMEMBER z 1`, `ZRANDMEMBER z 1 WITHSCORES`, `ZRANDMEMBER z -2 WITHSCORES`, `ZRANDMEMBER z -2`, `ZRANDMEMBER z 0`, `ZRANDMEMBER none`, `ZRANDMEMBER none 1`, `ZRANDMEMBER z 1 x`, `ZRANDMEMBER z x`, `ZRANDMEMBER z 1 WITHSCORES 1`,
			`SPOP none`, `SPOP none 1`, `SPOP s 0`, `SPOP s x`, `SPOP s -1`, `SPOP s 1 1`, `SPOP s`, `EXISTS s`, `SADD s 1 2 3`, `SPOP s 5`, `EXISTS s`, `SADD s 7`, `SPOP s 1`, `EXISTS s`,
		)
	})
}

// TestRandomlyChosen looks at what the replies of random entries have to be,
// whichever are chosen.
func TestRandomlyChosen(t *testing.T) {
	inBoth(t, func(p *redistest.Pair) {
		p.Ours(`HSET h a 1 b 2 c 3 d 4`)
		p.Ours(`SADD s a b c d`)
		p.Ours(`ZADD z 1 a 2 b 3 c 4 d`)
		seen := map[string]bool{}
		for range 400 {
			for _, line := range []string{`HRANDFIELD h 3`, `SRANDMEMBER s 3`, `ZRANDMEMBER z 3`} {
				r, err := resp.DecodeReply([]byte(p.Ours(line)))
				require.NoError(t, err)
				require.Len(t, r.Elems, 3)
				distinct := map[string]bool{}
				for _, e := range r.Elems {
					distinct[e.Str] = true
					seen[line+e.Str] = true
				}
				require.Len(t, distinct, 3, line)
			}
			for _, line := range []string{`HRANDFIELD h`, `SRANDMEMBER s`, `ZRANDMEMBER z`} {
				r, err := resp.DecodeReply([]byte(p.Ours(line)))
				require.NoError(t, err)
				seen[line+r.Str] = true
			}
		}
		require.Len(t, seen, 6*4)
		r, err := resp.DecodeReply([]byte(p.Ours(`SPOP s 3`)))
		require.NoError(t, err)
		require.Len(t, r.Elems, 3)
		for _, e := range r.Elems {
			require.Equal(t, ":0\r\n", p.Ours(`SISMEMBER s `+e.Str))
		}
		require.Equal(t, ":1\r\n", p.Ours(`SCARD s`))
	})
}

// TestBoundsOfCollections demands that what exceeds the bounds of a value is
// refused and changes nothing.
func TestBoundsOfCollections(t *testing.T) {
	if testing.Short() {
		t.Skip("one goroutine, and long under the race detector: make main runs it")
	}
	p := newPair(t)
	large := strings.Repeat("x", 1<<19)
	for _, f := range []struct{ grow, length string }{
		{`HSET h %d ` + large, `HLEN h`}, {`SADD s %d` + large, `SCARD s`}, {`ZADD z 1 %d` + large, `ZCARD z`}, {`RPUSH l %d` + large, `LLEN l`},
		{`LPUSH l2 %d` + large, `LLEN l2`},
	} {
		require.Contains(t, []string{":1\r\n"}, p.Ours(fmt.Sprintf(f.grow, 1)), f.length)
		require.Equal(t, "-ERR value is too large\r\n", p.Ours(fmt.Sprintf(f.grow, 2)))
		require.Equal(t, ":1\r\n", p.Ours(f.length))
	}
	require.Equal(t, "-ERR value is too large\r\n", p.Ours(`HSET h small 1 large `+large))
	require.Equal(t, "$-1\r\n", p.Ours(`HGET h small`), "all or nothing")
	require.Equal(t, "-ERR value is too large\r\n", p.Ours(`SADD s small `+large))
	require.Equal(t, ":0\r\n", p.Ours(`SISMEMBER s small`))
	require.Equal(t, "-ERR value is too large\r\n", p.Ours(`ZADD z 1 small 2 `+large))
	require.Equal(t, "$-1\r\n", p.Ours(`ZSCORE z small`))
	require.Equal(t, "-ERR value is too large\r\n", p.Ours(`RPUSH l small `+large))
	require.Equal(t, ":1\r\n", p.Ours(`LLEN l`))
	require.Equal(t, "-ERR value is too large\r\n", p.Ours(`LSET l 0 `+large+large))
	require.Equal(t, "-ERR value is too large\r\n", p.Ours(`LINSERT l BEFORE 1`+large+` `+large))

	p.Ours(`RPUSH source ` + large)
	require.Equal(t, "-ERR value is too large\r\n", p.Ours(`RPOPLPUSH source l`))
	require.Equal(t, ":1\r\n", p.Ours(`LLEN source`), "what cannot be put stays")
	p.Ours(`SADD from ` + large)
	require.Equal(t, "-ERR value is too large\r\n", p.Ours(`SMOVE from s `+large))
	require.Equal(t, ":1\r\n", p.Ours(`SCARD from`))

	p.Ours(`FLUSHALL`)
	for name, grow := range map[string]func(i int) string{
		"HSET k":  func(i int) string { return fmt.Sprintf(" %d 1", i) },
		"SADD k":  func(i int) string { return fmt.Sprintf(" %d", i) },
		"ZADD k":  func(i int) string { return fmt.Sprintf(" 1 %d", i) },
		"RPUSH k": func(i int) string { return fmt.Sprintf(" %d", i%10) },
	} {
		most := packed.MaxEntries
		if name == "RPUSH k" {
			most = packed.MaxElements
		}
		var line strings.Builder
		line.WriteString(name)
		for i := range most {
			line.WriteString(grow(i))
		}
		require.Equal(t, fmt.Sprintf(":%d\r\n", most), p.Ours(line.String()), name)
		require.Equal(t, "-ERR value has too many elements\r\n", p.Ours(name+grow(most)), name)
		if name == "ZADD k" {
			require.Equal(t, ":0\r\n", p.Ours(`ZADD k 2 1 3 2`), "what is there can change")
		}
		p.Ours(`DEL k`)
	}
}

// TestCollectionsDifferential runs random commands on both servers.
func TestCollectionsDifferential(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	inBoth(t, func(p *redistest.Pair) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		for range 3000 {
			line := randomCommand(rnd)
			name, _, _ := strings.Cut(line, " ")
			if slices.Contains([]string{"HGETALL", "HKEYS", "HVALS", "SMEMBERS", "SINTER", "SUNION", "SDIFF", "SSCAN", "HSCAN", "SRANDMEMBER"}, name) {
				inAnyOrder(p, line)
			} else {
				p.Same(line)
			}
			if t.Failed() {
				return
			}
		}
	})
}

// randomCommand returns a command on collections: most of them have a key of
// their kind, and few distinct members, so that they meet.
func randomCommand(rnd *rand.Rand) string {
	pick := func(from ...string) string { return from[rnd.IntN(len(from))] }
	member := func() string { return pick("a", "b", "c", "d", "e", "10", "9", "-3", `""`, "abcdefgh") }
	members := func() string {
		out := member()
		for rnd.IntN(3) == 0 {
			out += " " + member()
		}
		return out
	}
	number := func() string {
		return pick("0", "1", "2", "-1", "-2", "3", "5", "100", "-100", "x", "1.5", "9223372036854775807")
	}
	score := func() string {
		return pick("0", "1", "2", "-1", "1.5", "0.1", "1e3", "inf", "-inf", "3", "x", "-0", "1e300", "0x10")
	}
	bound := func() string { return pick("", "", "", "(") + score() }
	lex := func() string { return pick("-", "+", "[a", "(b", "[c", "(d", "[", "e") }
	pairs := func(first, second func() string) string {
		out := first() + " " + second()
		for rnd.IntN(3) == 0 {
			out += " " + first() + " " + second()
		}
		return out
	}
	maybe := func(words ...string) string {
		if rnd.IntN(3) > 0 {
			return ""
		}
		return " " + pick(words...)
	}
	limit := func() string { return maybe("LIMIT " + number() + " " + number()) }
	key := func(own string) string {
		if rnd.IntN(40) == 0 {
			other := pick("h1", "s1", "z1", "l1")
			if own != "x" || other != "z1" { // an order by members alone asks for equal scores
				return other
			}
		}
		return own + pick("1", "2")
	}
	h, s, z, l := key("h"), key("s"), key("z"), key("l")
	side := func() string { return pick("LEFT", "RIGHT", "left") }
	return pick(
		"HSET "+h+" "+pairs(member, member), "HMSET "+h+" "+pairs(member, number), "HSETNX "+h+" "+member()+" "+number(), "HGET "+h+" "+member(), "HMGET "+h+" "+members(),
		"HGETALL "+h, "HKEYS "+h, "HVALS "+h, "HDEL "+h+" "+members(), "HDEL "+h+" "+members(), "HINCRBY "+h+" "+member()+" "+number(), "HINCRBYFLOAT "+h+" "+member()+" "+number(),
		"HLEN "+h, "HEXISTS "+h+" "+member(), "HSTRLEN "+h+" "+member(), "HSCAN "+h+" 0"+maybe("MATCH a*", "COUNT 1"),
		"SADD "+s+" "+members(), "SADD "+s+" "+members(), "SREM "+s+" "+members(), "SMEMBERS "+s, "SISMEMBER "+s+" "+member(), "SMISMEMBER "+s+" "+members(), "SCARD "+s,
		"SMOVE "+s+" "+key("s")+" "+member(), "SINTER "+s+" "+key("s"), "SUNION "+s+" "+key("s"), "SDIFF "+s+" "+key("s"), "SINTERCARD 2 "+s+" "+key("s")+limit(), "SRANDMEMBER "+s+" 100", "SSCAN "+s+" 0 COUNT 1000", // Redis's tables give a cursor otherwise
		"ZADD "+z+maybe("NX", "XX", "nx XX")+maybe("GT", "LT", "GT LT")+maybe("CH")+" "+pairs(score, member), "ZADD "+z+maybe("CH")+" "+pairs(score, member), "ZADD "+z+maybe("NX", "XX", "GT", "lt")+" INCR "+score()+" "+member(),
		"ZINCRBY "+z+" "+score()+" "+member(), "ZREM "+z+" "+members(), "ZCARD "+z, "ZCOUNT "+z+" "+bound()+" "+bound(), "ZLEXCOUNT "+key("x")+" "+lex()+" "+lex(), "ZSCORE "+z+" "+member(), "ZMSCORE "+z+" "+members(),
		"ZRANK "+z+" "+member(), "ZREVRANK "+z+" "+member(), "ZRANGE "+z+" "+number()+" "+number()+maybe("WITHSCORES")+maybe("REV"), "ZRANGE "+z+" "+bound()+" "+bound()+" BYSCORE"+maybe("REV")+limit()+maybe("WITHSCORES"),
		"ZREVRANGE "+z+" "+number()+" "+number()+maybe("WITHSCORES"), "ZRANGEBYSCORE "+z+" "+bound()+" "+bound()+maybe("WITHSCORES")+limit(), "ZREVRANGEBYSCORE "+z+" "+bound()+" "+bound()+limit(),
		"ZADD "+key("x")+" "+"0 "+member()+" 0 "+member(), "ZRANGEBYLEX "+key("x")+" "+lex()+" "+lex()+limit(), "ZREVRANGEBYLEX "+key("x")+" "+lex()+" "+lex(), "ZRANGE "+key("x")+" "+lex()+" "+lex()+" BYLEX"+maybe("REV", "WITHSCORES")+limit(), "ZREMRANGEBYLEX "+key("x")+" "+lex()+" "+lex(),
		"ZREMRANGEBYSCORE "+z+" "+bound()+" "+bound(), "ZREMRANGEBYRANK "+z+" "+number()+" "+number(), "ZPOPMIN "+z+maybe(number()), "ZPOPMAX "+z+maybe(number()), "ZSCAN "+z+" 0",
		"LPUSH "+l+" "+members(), "RPUSH "+l+" "+members(), "LPUSHX "+l+" "+members(), "RPUSHX "+l+" "+members(), "LPOP "+l+maybe(number()), "RPOP "+l+maybe(number()), "LLEN "+l, "LINDEX "+l+" "+number(),
		"LRANGE "+l+" "+number()+" "+number(), "LTRIM "+l+" "+number()+" "+number(), "LSET "+l+" "+number()+" "+member(), "LREM "+l+" "+number()+" "+member(), "LINSERT "+l+" "+pick("BEFORE", "after", "x")+" "+member()+" "+member(),
		"LPOS "+l+" "+member()+maybe("RANK "+number())+maybe("COUNT "+number())+maybe("MAXLEN "+number()), "LMOVE "+l+" "+key("l")+" "+side()+" "+side(), "RPOPLPUSH "+l+" "+key("l"),
		"TYPE "+pick(h, s, z, l), "EXISTS "+pick(h, s, z, l), "TTL "+pick(h, s, z, l), "EXPIRE "+pick(h, s, z, l)+" 100", "PERSIST "+pick(h, s, z, l),
	)
}

func TestTransactionsOfCollections(t *testing.T) {
	inBoth(t, func(p *redistest.Pair) {
		p.Same(`HSET h a 1`, `SADD s a`, `ZADD z 1 a`, `RPUSH l a`)
		for _, change := range []string{`HSET h a 2`, `HINCRBY h a 1`, `SADD s b`, `SREM s a`, `ZADD z 2 a`, `ZREMRANGEBYSCORE z 2 2`, `LSET l 0 b`, `RPOPLPUSH l l2`, `SMOVE s s2 b`} {
			for _, key := range []string{"h", "s", "z", "l"} {
				p.Same(`WATCH `+key, `HGET h none`, `SCARD s`, `MULTI`, `PING`, `EXEC`, `WATCH `+key, change, `MULTI`, `ECHO "`+key+" "+change+`"`, `EXEC`,
					`DEL h s z l s2 l2`, `HSET h a 1`, `SADD s a`, `ZADD z 1 a`, `RPUSH l a`)
			}
		}
		p.Same(`MULTI`, `HSET h b 2`, `ZADD z 5 x`, `SMOVE s s2 a`, `LMOVE l l2 LEFT LEFT`, `SINTER s s2`, `SUNIONSTORE s3 s s2`, `HGETALL h`, `HGET s2 a`, `EXEC`, `SMEMBERS s3`)
	})
}

// TestLimitsAreNoCollections demands that no command on data touches the state
// of a limit.
func TestLimitsAreNoCollections(t *testing.T) {
	p := newPair(t)
	p.Ours(`RL.LIMIT k 10 60`)
	p.Ours(`SADD s a`)
	p.Ours(`RPUSH l a`)
	for _, line := range []string{`HSET k a 1`, `SADD k a`, `ZADD k 1 a`, `RPUSH k a`, `HGETALL k`, `SMOVE s k a`, `RPOPLPUSH l k`, `SUNIONSTORE k s`, `SINTERSTORE k none`, `ZREMRANGEBYSCORE k 0 1`} {
		require.Equal(t, "-WRONGTYPE Operation against a key holding the wrong kind of value\r\n", p.Ours(line), line)
	}
	require.Equal(t, "+token\r\n", p.Ours(`TYPE k`))
	require.Equal(t, ":1\r\n", p.Ours(`SCARD s`))
	require.Equal(t, ":1\r\n", p.Ours(`LLEN l`))
}
