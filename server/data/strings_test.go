package data_test

import (
	"context"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/engine"
	"github.com/headgate-io/headgate/internal/redistest"
	"github.com/headgate-io/headgate/server"
)

// newPair serves a fresh engine, beside a redis-server.
func newPair(t *testing.T) *redistest.Pair {
	t.Helper()
	s, err := server.New(server.Config{Parts: server.One(engine.New(engine.Config{}), nil)})
	require.NoError(t, err)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	go s.Serve(ln)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_ = s.Shutdown(ctx) // clients are still there
	})
	return redistest.Dial(t, redistest.Start(t), ln.Addr().String())
}

// inBoth runs a test in RESP2 and RESP3.
func inBoth(t *testing.T, test func(p *redistest.Pair)) {
	p := newPair(t)
	for _, version := range []string{"2", "3"} {
		p.Redis("HELLO " + version)
		p.Ours("HELLO " + version)
		p.Same("FLUSHALL")
		test(p)
	}
}

func TestSet(t *testing.T) {
	inBoth(t, func(p *redistest.Pair) {
		p.Same(
			`GET k`, `SET k v`, `GET k`, `SET k ""`, `GET k`, `STRLEN k`, `SET k "a\r\n\x00b"`, `GET k`, `STRLEN k`,
			`SET k v NX`, `SET other v NX`, `SET none v XX`, `SET k w XX`, `GET k`, `EXISTS none`,
			`SET k x GET`, `SET none x GET`, `GET none`, `SET k y NX GET`, `GET k`, `SET new y NX GET`, `GET new`, `SET no y XX GET`, `EXISTS no`, `SET k z XX GET`, `GET k`,
			`SET k v ex 100`, `TTL k`, `SET k v KEEPTTL`, `TTL k`, `SET k v`, `TTL k`, `SET k v px 100000`, `TTL k`, `SET k w KEEPTTL GET`, `TTL k`, `SET k w GET`, `TTL k`,
			`SET k v EXAT 33333333333`, `SET k v PXAT 9223372036854775807`, `SET k v EX 9223372036854775`, `SET k v EX 9223372036854776`, `SET k v EXAT 9223372036854776`, `SET k v EX 9223370000000000`, `SET k v EXAT 4000000000`, `EXPIRETIME k`, `SET k v PXAT 4000000000123`, `PEXPIRETIME k`, `EXPIRETIME k`,
			`SET k v EXAT 1`, `EXISTS k`, `SET k v`, `SET k v PXAT 1 GET`, `EXISTS k`, `SET gone v KEEPTTL`, `TTL gone`,
			// errors
			`SET`, `SET k`, `SET k v x`, `SET k v NX XX`, `SET k v XX NX`, `SET k v EX`, `SET k v EX 10 PX 10`, `SET k v EX 10 EX 20`, `TTL k`, `SET k v KEEPTTL EX 10`, `SET k v EX 10 KEEPTTL`,
			`SET k v PERSIST`, `SET k v EX 0`, `SET k v EX -1`, `SET k v PX 0`, `SET k v PX -5`, `SET k v EXAT 0`, `SET k v PXAT -1`, `SET k v EX x`, `SET k v EX 1.5`, `SET k v EX ""`, `SET k v EX +5`, `SET k v EX " 5"`,
			`SET k v EX 9223372036854775807`, `SET k v PX 9223372036854775807`, `SET k v EX 99999999999999999999`, `SET k v EX 10 NX GET XX`, `SET k v GET GET`, `SET k v NX NX`, `SET n v NX NX`,
			`SETEX k 100 v`, `TTL k`, `GET k`, `SETEX k 0 v`, `SETEX k -1 v`, `SETEX k x v`, `SETEX k 9223372036854775807 v`, `SETEX k 10`, `SETEX k 10 v w`,
			`PSETEX k 100000 v`, `TTL k`, `PSETEX k 0 v`, `PSETEX k x v`, `PSETEX k 9223372036854775807 v`,
			`SETNX k v`, `SETNX fresh v`, `GET fresh`, `TTL fresh`, `SETNX k`,
			`GETSET k new`, `TTL k`, `GETSET absent v`, `GET absent`, `GETSET k`, `SET e v EX 100`, `GETSET e w`, `TTL e`,
			`GET`, `GET a b`, `STRLEN absent2`, `STRLEN`, `DBSIZE`,
		)
	})
}

func TestGetDelGetEx(t *testing.T) {
	inBoth(t, func(p *redistest.Pair) {
		p.Same(
			`GETDEL k`, `SET k v`, `GETDEL k`, `EXISTS k`, `GETDEL`, `GETDEL a b`,
			`GETEX k`, `GETEX k EX 0`, `GETEX k EX x`, `GETEX k bad`, `SET k v`, `GETEX k`, `TTL k`, `GETEX k EX 100`, `TTL k`, `GETEX k`, `TTL k`, `GETEX k PERSIST`, `TTL k`, `GETEX k PX 50000`, `TTL k`,
			`GETEX k EXAT 4000000000`, `EXPIRETIME k`, `GETEX k PXAT 4000000000555`, `PEXPIRETIME k`,
			`GETEX k EX 0`, `GETEX k EX -1`, `GETEX k EX x`, `GETEX k PX 9223372036854775807`, `GETEX k EX`, `GETEX k PERSIST EX 10`, `GETEX k EX 10 PERSIST`, `GETEX k EX 10 PX 10`, `GETEX k KEEPTTL`, `GETEX k NX`, `GETEX k GET`,
			`GETEX k PERSIST PERSIST`, `TTL k`, `GETEX k EX 10 EX 20`, `TTL k`, `GETEX k EXAT 1`, `EXISTS k`,
		)
	})
}

func TestRanges(t *testing.T) {
	inBoth(t, func(p *redistest.Pair) {
		p.Same(`SET k "This is a string"`, `SET n 12345`, `SET e ""`)
		for _, key := range []string{"k", "n", "e", "none"} {
			for _, r := range []string{"0 3", "-3 -1", "0 -1", "10 100", "-1 -5", "5 2", "-100 2", "-100 -99", "100 200", "0 0", "-1 0", "-9223372036854775808 9223372036854775807", "3 -100"} {
				p.Same("GETRANGE "+key+" "+r, "SUBSTR "+key+" "+r)
			}
		}
		p.Same(`GETRANGE k a 1`, `GETRANGE k 1 a`, `GETRANGE k 1`, `GETRANGE k 1 2 3`, `GETRANGE k 1.0 2`,
			`SETRANGE k 8 "not a string"`, `GET k`, `SETRANGE k 0 X`, `GET k`, `SETRANGE pad 5 x`, `GET pad`, `SETRANGE pad 0 ""`, `SETRANGE absent 7 ""`, `EXISTS absent`,
			`SETRANGE n 1 99`, `GET n`, `INCR n`, `SETRANGE n 5 1`, `GET n`, `INCR n`, `SETRANGE n 0 x`, `INCR n`, `SETRANGE n 20 tail`, `GET n`, `SETRANGE e 0 abc`, `GET e`,
			`SETRANGE k -1 x`, `SETRANGE k x y`, `SETRANGE k 1`, `SETRANGE k -1 ""`, `SETRANGE none x ""`,
			`SET t v EX 100`, `SETRANGE t 3 w`, `TTL t`, `APPEND t w`, `TTL t`,
			`APPEND new abc`, `APPEND new "\x00def"`, `GET new`, `APPEND new ""`, `APPEND blank ""`, `EXISTS blank`, `GET blank`, `STRLEN blank`,
			`APPEND num 1`, `APPEND num 2`, `INCR num`, `APPEND num 0`, `GET num`, `APPEND num -`, `INCR num`, `APPEND minus -`, `APPEND minus 5`, `INCR minus`, `APPEND`, `APPEND k`,
			`SET zero 0`, `APPEND zero 1`, `GET zero`, `INCR zero`,
		)
		long := strings.Repeat("0123456789", 1000)
		p.Same("SET l "+long, "APPEND l "+long, "STRLEN l", "GETRANGE l 9990 10010", "SETRANGE l 15000 "+long, "GET l", "SET l 1", "GET l", "SET l "+long, "SETRANGE l 0 x", "GET l")
	})
}

func TestCounters(t *testing.T) {
	inBoth(t, func(p *redistest.Pair) {
		p.Same(
			`INCR n`, `INCR n`, `GET n`, `DECR n`, `INCRBY n 10`, `DECRBY n 4`, `GET n`, `INCRBY n -100`, `DECRBY n -50`, `DECR m`, `DECRBY m2 7`, `INCRBY m3 0`, `GET m3`, `EXISTS m3`,
			`SET n 9223372036854775806`, `INCR n`, `INCR n`, `GET n`, `INCRBY n 1`, `DECRBY n -1`, `SET n -9223372036854775807`, `DECR n`, `DECR n`, `INCRBY n -1`, `DECRBY n 1`, `DECRBY n -9223372036854775808`,
			`INCRBY n 9223372036854775807`, `INCRBY n -9223372036854775808`, `INCRBY n 9223372036854775808`, `INCRBY n x`, `INCRBY n 1.0`, `INCRBY n ""`, `INCRBY n " 1"`, `INCRBY n +1`, `INCRBY n 01`, `INCRBY n -0`, `DECRBY n x`, `DECRBY n +1`,
			`SET s abc`, `INCR s`, `SET s ""`, `INCR s`, `SET s " 1"`, `INCR s`, `SET s "1 "`, `INCR s`, `SET s 01`, `INCR s`, `SET s +1`, `INCR s`, `SET s -0`, `INCR s`, `SET s 1.0`, `INCR s`, `SET s 9223372036854775808`, `INCR s`, `SET s -1`, `INCR s`, `INCR s`, `SET s 0`, `DECR s`,
			`SET t 5 EX 100`, `INCR t`, `TTL t`, `INCRBYFLOAT t 0.5`, `TTL t`, `GET t`,
			`INCR`, `INCR a b`, `INCRBY a`, `DECRBY a`, `INCRBYFLOAT a`,
		)
	})
}

func TestFloats(t *testing.T) {
	inBoth(t, func(p *redistest.Pair) {
		p.Same(
			`INCRBYFLOAT f 10.5`, `INCRBYFLOAT f 0.1`, `INCRBYFLOAT f -5`, `GET f`, `SET f 5.0e3`, `INCRBYFLOAT f 2.0e2`, `INCRBYFLOAT f 1e-17`, `INCRBYFLOAT f 1e17`, `INCRBYFLOAT f 3`, `GET f`, `INCR f`, `GET f`,
			`SET g 1.5`, `INCRBYFLOAT g 1.5`, `INCR g`, `SET g 3.0`, `INCRBYFLOAT g 1.000000000000000005`, `INCRBYFLOAT g 1e400`, `INCRBYFLOAT g 1e4000`, `INCRBYFLOAT g 1e4932`, `INCRBYFLOAT g 1e4932`, `INCRBYFLOAT g 1e5000`, `INCRBYFLOAT g 1e-5000`,
			`INCRBYFLOAT g inf`, `INCRBYFLOAT g -inf`, `INCRBYFLOAT g nan`, `INCRBYFLOAT g x`, `INCRBYFLOAT g ""`, `INCRBYFLOAT g " 1"`, `INCRBYFLOAT g "1 "`, `INCRBYFLOAT g +1`, `INCRBYFLOAT g 1e`, `INCRBYFLOAT g .5`, `INCRBYFLOAT g 5.`, `INCRBYFLOAT g .`, `INCRBYFLOAT g --1`,
			`SET h inf`, `INCRBYFLOAT h 1`, `SET h nan`, `INCRBYFLOAT h 1`, `SET h "1 "`, `INCRBYFLOAT h 1`, `SET h " 1"`, `INCRBYFLOAT h 1`, `SET h ""`, `INCRBYFLOAT h 1`, `SET h abc`, `INCRBYFLOAT h x`, `SET x 0x10`, `INCRBYFLOAT x 0x.8p1`, `INCRBYFLOAT x -0X1P-1`, `INCRBYFLOAT x 0x`, `INCRBYFLOAT x 0x1p`, `INCRBYFLOAT x 0b1`, `INCRBYFLOAT x 1_0`, `INCRBYFLOAT x 0x1_0`, `INCRBYFLOAT x 0x1p99999`, `INCRBYFLOAT x 0x1p-99999`, `INCRBYFLOAT x 0x123456789abcdef123456789`, `INCRBYFLOAT x Infinity`, `INCRBYFLOAT x INF`, `INCRBYFLOAT x 010`, `SET h 1`, `INCRBYFLOAT h x`,
			`INCRBYFLOAT z 0`, `GET z`, `INCRBYFLOAT z -0.0`, `GET z`, `INCRBYFLOAT y -0`, `GET y`, `INCRBYFLOAT y 1e-20`, `GET y`, `INCRBYFLOAT y -1e-18`, `GET y`, `INCRBYFLOAT w 0.30000000000000004`, `INCRBYFLOAT w 0.1`, `INCRBYFLOAT w 123456789012345678`,
			`SET i 9223372036854775807`, `INCRBYFLOAT i 1`, `INCR i`, `INCRBYFLOAT i 0.25`, `GET i`,
		)
	})
}

func TestSeveralStrings(t *testing.T) {
	inBoth(t, func(p *redistest.Pair) {
		p.Same(
			`MSET a 1 b "" c x`, `MGET a b c d`, `MGET a a none`, `MSET a 2 a 3`, `GET a`, `SET t v EX 100`, `MSET t w`, `TTL t`, `MSET a`, `MSET a 1 b`, `MSET`, `MGET`, `MSETNX a`, `MSETNX a 1 b`,
			`MSETNX a 9 fresh 1`, `EXISTS fresh`, `GET a`, `MSETNX f1 1 f2 2`, `MGET f1 f2`, `MSETNX g 1 g 2`, `GET g`, `DBSIZE`,
		)
		var set, get strings.Builder
		for i := range 2000 {
			fmt.Fprintf(&set, " k%d %d", i, i)
			fmt.Fprintf(&get, " k%d", i)
		}
		p.Same("MGET"+get.String(), "MSETNX"+set.String(), "MSET"+set.String(), "MGET"+get.String(), "MSETNX"+set.String(), "DBSIZE",
			"MULTI", "MSET"+set.String(), "MSETNX x 1 y 2", "EXEC", "MGET"+get.String(), "UNLINK"+get.String())
	})
}

// SET and its like overwrite a value of another type; all other commands answer WRONGTYPE.
func TestStringsOverOtherTypes(t *testing.T) {
	create := map[string]string{"h": "HSET h f v", "s": "SADD s a b", "i": "SADD i 1 2", "z": "ZADD z 1 a", "l": "RPUSH l a b"}
	inBoth(t, func(p *redistest.Pair) {
		for key, line := range create {
			p.Same("DEL "+key, line)
			for _, command := range []string{"GET %s", "INCR %s", "DECRBY %s 2", "INCRBYFLOAT %s 1", "INCRBYFLOAT %s x", "APPEND %s x", "STRLEN %s", "GETRANGE %s 0 1", "SETRANGE %s 0 x", "SETRANGE %s 0 \"\"", "GETSET %s x", "GETDEL %s", "GETEX %s", "GETEX %s EX 0",
				"SET %s x GET", "SET %s x NX GET", "SET %s x XX GET EX 0", "SET %s x NX", "SETNX %s x", "MSETNX %s 1 new 2", "MGET %s none", "TYPE %s", "OBJECT ENCODING %s", "EXISTS %s", "TTL %s"} {
				p.Same(fmt.Sprintf(command, key))
			}
			p.Same("EXISTS new", "EXPIRE "+key+" 100", "TTL "+key, "EXPIRE "+key+" 200 GT", "PERSIST "+key, "TTL "+key, "EXPIRE "+key+" 100",
				"COPY "+key+" c", "TYPE c", "TTL c", "OBJECT ENCODING c", "RENAME c d", "TYPE d", "MOVE d 3", "EXISTS d", "SELECT 3", "TYPE d", "TTL d", "DEL d", "SELECT 0", "SCAN 0 TYPE string", "DBSIZE",
				"SET "+key+" v KEEPTTL", "TYPE "+key, "TTL "+key, "DEL "+key, line, "SET "+key+" v XX", "TYPE "+key, "TTL "+key, "DEL "+key, line, "SETEX "+key+" 100 v", "GET "+key, "DEL "+key, line, "MSET x 1 "+key+" 2", "GET "+key,
				"DEL "+key+" x", line, "WATCH "+key, "MULTI", "SET "+key+" v", "EXEC", "GET "+key, "DEL "+key)
		}
	})
}

// The state of a limit is no value, and is not overwritten by one.
func TestStringsOverLimits(t *testing.T) {
	p := newPair(t)
	for key, line := range map[string]string{"t": "RL.LIMIT t 10 1h", "f": "RL.LIMIT f 10 1h ALGORITHM fixed", "a": "RL.ACQUIRE a 2 60"} {
		p.Ours(line)
		for _, command := range []string{"GET %s", "SET %s v", "SET %s v XX", "SETEX %s 10 v", "GETSET %s v", "INCR %s", "APPEND %s v", "MSET other 1 %s 2", "GETDEL %s", "SETNX %s v"} {
			require.Contains(t, p.Ours(fmt.Sprintf(command, key)), "-WRONGTYPE ", command)
		}
		require.Equal(t, ":0\r\n", p.Ours("MSETNX other 1 "+key+" 2"), "it exists")
		require.Equal(t, ":0\r\n", p.Ours("EXISTS other"))
		require.Equal(t, ":1\r\n", p.Ours("DEL "+key))
	}
}

func TestValuesHaveABound(t *testing.T) {
	p := newPair(t)
	long := strings.Repeat("x", engine.MaxValueLen)
	require.Equal(t, "+OK\r\n", p.Ours("SET k "+long))
	const tooLong = "-ERR value is longer than 1048576 bytes\r\n"
	for _, line := range []string{"SET k " + long + "y", "SET k " + long + "y GET", "APPEND k y", "SETRANGE k 1048576 y", "SETRANGE k 9223372036854775807 y", "SETRANGE new 1048576 y", "MSET a 1 b " + long + "y", "MSETNX a 1 b " + long + "y", "GETSET k " + long + "y", "SETEX k 10 " + long + "y"} {
		require.Equal(t, tooLong, p.Ours(line), line[:10])
	}
	require.Equal(t, ":1\r\n", p.Ours("EXISTS k a b new"))
	require.Equal(t, ":1048576\r\n", p.Ours("STRLEN k"))
	require.Equal(t, ":1048576\r\n", p.Ours("SETRANGE k 1048575 z"))
}
