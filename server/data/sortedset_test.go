package data_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/internal/redistest"
)

func TestSortedSets(t *testing.T) {
	inBoth(t, func(p *redistest.Pair) {
		p.Same(
			`ZADD z 1 a 2 b 3 c`, `ZADD z 5 a`, `ZADD z CH 6 a 7 new`, `ZADD z NX 9 a 9 n`, `ZADD z XX 10 a 10 absent`, `ZADD z XX CH 11 a 2 b`, `ZADD z GT 1 a`, `ZADD z GT CH 12 a`, `ZADD z LT 20 a`, `ZADD z LT CH 2 a`, `ZADD z GT 1 fresh`, `ZADD z XX GT CH 100 a 100 absent`,
			`ZRANGE z 0 -1 WITHSCORES`, `ZADD z INCR 5 a`, `ZADD z NX INCR 5 a`, `ZADD z XX INCR 5 absent`, `ZADD z GT INCR -5 a`, `ZADD z LT INCR -5 a`, `ZADD z INCR 1 fresh2`, `ZADD z CH INCR 1 a`, `ZADD z NX INCR 3 n3`,
			`ZADD none XX 1 a`, `ZADD none XX INCR 1 a`, `EXISTS none`, `ZINCRBY z 1.5 a`, `ZINCRBY new 2 m`, `ZINCRBY new -2 m`, `ZSCORE new m`, `ZADD z 1 a 2 a 3 a`, `ZADD dup 1 a 2 a 3 a`, `ZSCORE dup a`,
			`ZSCORE z a`, `ZSCORE z none`, `ZSCORE none a`, `ZMSCORE z a none b`, `ZMSCORE none a b`, `ZCARD z`, `ZCARD none`, `TYPE z`,
			`ZRANK z a`, `ZRANK z none`, `ZRANK none a`, `ZREVRANK z a`, `ZREVRANK z none`, `ZREM z a none a b`, `ZREM none a`, `ZREM dup a`, `EXISTS dup`,
			// conflicts and errors
			`ZADD z NX XX 1 a`, `ZADD z GT LT 1 a`, `ZADD z NX GT 1 a`, `ZADD z NX LT 1 a`, `ZADD z NX XX GT x a`, `ZADD z INCR 1 a 2 b`, `ZADD z NX`, `ZADD z NX XX`, `ZADD z 1`, `ZADD z 1 a 2`, `ZADD z NX 1`, `ZADD z x a`, `ZADD z 1 a x b`, `ZSCORE z a`, `ZADD z "" a`, `ZADD z " 1" a`, `ZADD z "1 " a`, `ZADD z nan a`, `ZADD z 1x a`,
			`ZADD str`, `ZINCRBY z x a`, `ZINCRBY z nan a`, `ZINCRBY z nx a`, `ZINCRBY z 1`, `ZADD z CH NX CH 1 chch`, `ZADD z incr 1`,
			`ZADD i inf a -inf b +inf c`, `ZINCRBY i -inf a`, `ZADD i INCR inf b`, `ZADD i 1 d INCR`, `ZRANGE i 0 -1 WITHSCORES`, `ZADD i 1 nan`, `ZADD i 1 inf`, `ZADD i 2 nx`, `ZRANGE i 0 -1 WITHSCORES`,
			`ZREM`, `ZREM z`, `ZCARD`, `ZSCORE z`, `ZMSCORE z`, `ZRANK z`, `ZREVRANK z`, `ZRANK z a WITHSCORE x`, `ZREVRANK z a x y`,
		)
	})
}

// WITHSCORE came with Redis 7.2, whose replies these are.
func TestRankWithScore(t *testing.T) {
	inBoth(t, func(p *redistest.Pair) {
		null, score := "*-1\r\n", "$3\r\n2.5\r\n"
		if p.Ours(`GET none`) == "_\r\n" {
			null, score = "_\r\n", ",2.5\r\n"
		}
		p.Same(`ZADD z 1 a 2.5 b 3 c 4 d`, `SET string v`)
		f := func(line, want string) {
			t.Helper()
			require.Equal(t, want, p.Ours(line), line)
		}
		f(`ZRANK z b WITHSCORE`, "*2\r\n:1\r\n"+score)
		f(`ZREVRANK z b withscore`, "*2\r\n:2\r\n"+score)
		f(`ZRANK z none WITHSCORE`, null)
		f(`ZREVRANK none b WITHSCORE`, null)
		f(`ZRANK z b WITHSCORES`, "-ERR syntax error\r\n")
		f(`ZREVRANK none b x`, "-ERR syntax error\r\n")
		f(`ZRANK string b WITHSCORE`, p.Redis(`ZRANK string b`))
	})
}

func TestScores(t *testing.T) {
	inBoth(t, func(p *redistest.Pair) {
		for i, score := range []string{"0", "-0", "+1", "1e3", "1E3", "0.1", "-0.1", ".5", "5.", "007", "1e308", "1e309", "-1e309", "1e-320", "5e-324", "1e-400", "0e-400", "0x10", "0x1p4", "0X1.8", "-0x1p-3", "0x", "1_000", "0x1_0",
			"infinity", "-Infinity", "INF", "+inf", "in", "nan", "NaN", "-nan", "nan(1)", "1e", "e1", "--1", "+-1", "1.2.3", "1,5", `"1\x00"`, "17179869184.5", "9007199254740993", "4503599627370495", "4503599627370496", "4503599627370497", "-4503599627370495", "-4503599627370497",
			"123456789012345678", "1e16", "1e17", "1e15", "1e21", "1700000000.123", "1700000000123.456", "3.0", "3.14159265358979323846", "1e-5", "0.0001", "0.00001", "123456789.123456789", "1e22", "100000000000000000000", "0.30000000000000004"} {
			p.Same(fmt.Sprintf(`ZADD z %s m%d`, score, i), fmt.Sprintf(`ZSCORE z m%d`, i), fmt.Sprintf(`ZINCRBY z2 %s m`, score), fmt.Sprintf(`ZCOUNT z %s inf`, score), fmt.Sprintf(`ZCOUNT z (%s +inf`, score), fmt.Sprintf(`ZRANGEBYSCORE z -inf %s`, score))
		}
		p.Same(`ZRANGE z 0 -1 WITHSCORES`, `ZSCAN z 0`, `ZADD z -0 zero`, `ZADD z 0 zero`, `ZSCORE z zero`, `ZINCRBY z -0 zero`, `ZINCRBY z 0 zero`, `ZADD z CH 0 zero`, `ZADD w -0 a`, `ZADD w XX CH -0 a`, `ZADD w CH -1 a`, `ZADD w CH -0 a`, `ZSCORE w a`,
			`ZCOUNT z "" 5`, `ZCOUNT z " 1" 5`, `ZCOUNT z "1 " 5`, `ZCOUNT z ( 5`, `ZCOUNT z ((1 5`, `ZCOUNT z "1\x00x" 5`, `ZCOUNT z x 5`, `ZCOUNT z 1 x`, `ZCOUNT z nan 1`, `ZCOUNT z "( 1" 5`, `ZCOUNT z " " 5`)
	})
}

// ZSCAN writes scores as integers where Redis keeps them as such: in a set of few
// members, all of them short.
func TestScoresOfZScan(t *testing.T) {
	inBoth(t, func(p *redistest.Pair) {
		for i, score := range []string{"1e16", "1e17", "-1e17", "4611686018427387904", "-4611686018427387904", "4611686018427388928", "1e18", "1e19", "0.5"} {
			short, long := fmt.Sprint("short", i), fmt.Sprint("long", i)
			p.Same(fmt.Sprintf(`ZADD %s %s %s`, short, score, strings.Repeat("m", 64)), `ZSCAN `+short+` 0`)
			p.Same(fmt.Sprintf(`ZADD %s %s %s`, long, score, strings.Repeat("m", 65)), `ZSCAN `+long+` 0`)
		}
	})
}

func TestSortedSetRanges(t *testing.T) {
	inBoth(t, func(p *redistest.Pair) {
		p.Same(`ZADD z 1 a 2 b 2 c 3 d 4.5 e 10 f`, `ZADD lex 0 a 0 aa 0 b 0 c 0 "" 0 "\xff"`)
		for _, r := range []string{"0 -1", "1 2", "-2 -1", "2 1", "5 5", "6 7", "-100 100", "-1 0", "0 0", "3 -3", "-100 -90", "9223372036854775807 9223372036854775807", "-9223372036854775808 9223372036854775807"} {
			p.Same(`ZRANGE z `+r, `ZRANGE z `+r+` WITHSCORES`, `ZRANGE z `+r+` REV`, `ZREVRANGE z `+r, `ZREVRANGE z `+r+` withscores`)
		}
		for _, r := range [][2]string{{"1", "3"}, {"(1", "(3"}, {"-inf", "+inf"}, {"2", "2"}, {"(2", "2"}, {"3", "1"}, {"4.5", "inf"}, {"(10", "inf"}, {"-inf", "(1"}, {"-5", "0"}, {"2.5", "2.6"}} {
			up, down := r[0]+" "+r[1], r[1]+" "+r[0]
			p.Same(`ZRANGEBYSCORE z `+up, `ZREVRANGEBYSCORE z `+down, `ZRANGE z `+up+` BYSCORE`, `ZRANGE z `+down+` BYSCORE REV WITHSCORES`, `ZCOUNT z `+up, `ZCOUNT z `+down)
			for _, limit := range []string{"0 1", "1 2", "2 -1", "0 0", "-1 2", "100 1", "1 -5", "0 9223372036854775807"} {
				p.Same(`ZRANGEBYSCORE z `+up+` LIMIT `+limit, `ZREVRANGEBYSCORE z `+down+` WITHSCORES LIMIT `+limit, `ZRANGE z `+up+` LIMIT `+limit+` BYSCORE WITHSCORES`)
			}
		}
		for _, r := range [][2]string{{"-", "+"}, {"[a", "[b"}, {"(a", "(b"}, {"(a", "[c"}, {"-", "(b"}, {"[b", "+"}, {"+", "-"}, {"[b", "[a"}, {"(a", "(a"}, {"[a", "(a"}, {"[a", "[a"}, {"[", "+"}, {"(", "+"}, {"-", "["}, {"-", "-"}, {"+", "+"}, {`"[\xff"`, "+"}, {"[zz", "[zzz"}} {
			up, down := r[0]+" "+r[1], r[1]+" "+r[0]
			p.Same(`ZRANGEBYLEX lex `+up, `ZREVRANGEBYLEX lex `+down, `ZLEXCOUNT lex `+up, `ZRANGE lex `+up+` BYLEX`, `ZRANGE lex `+down+` BYLEX REV LIMIT 1 2`, `ZRANGEBYLEX lex `+up+` LIMIT 1 -1`)
		}
		p.Same(
			`ZRANGE none 0 -1`, `ZRANGE none 0 -1 WITHSCORES`, `ZRANGEBYSCORE none 0 1`, `ZCOUNT none 0 1`, `ZLEXCOUNT none - +`, `ZREVRANGEBYLEX none + -`,
			`ZRANGE z x 1`, `ZRANGE z 0 1.5`, `ZRANGE z 0 1 LIMIT 0 1`, `ZRANGE z 0 -1 LIMIT 2 -1`, `ZRANGE z 0 1 BYLEX WITHSCORES`, `ZRANGE z 0 1 BYSCORE BYLEX`, `ZRANGE z 0 1 REV REV`, `ZRANGE z 0 1 BAD`, `ZRANGE z 0 1 LIMIT 0`, `ZRANGE z 0 1 BYSCORE LIMIT x 1`, `ZRANGE z 0 1 BYSCORE LIMIT 1 x`, `ZRANGE z a b BYSCORE`, `ZRANGE z a b BYLEX`, `ZRANGE z - + BYLEX`,
			`ZREVRANGE z 0 1 REV`, `ZREVRANGE z 0 1 BYSCORE`, `ZREVRANGE z 0 1 LIMIT 0 1`, `ZRANGEBYSCORE z a 1`, `ZRANGEBYSCORE z 1 2 REV`, `ZRANGEBYSCORE z 1 2 BYLEX`, `ZRANGEBYSCORE z 1 2 LIMIT 1`, `ZRANGEBYLEX z a b`, `ZRANGEBYLEX z - + WITHSCORES`, `ZRANGEBYLEX z -x +`, `ZRANGEBYLEX z "" +`, `ZRANGEBYLEX z - ++`, `ZLEXCOUNT z a b`, `ZCOUNT z 1`, `ZCOUNT z 1 2 3`, `ZRANGE z 0`, `ZRANGE none a b`, `ZRANGE none 0 1 LIMIT 1 1`,
			`ZREMRANGEBYRANK z 0 0`, `ZREMRANGEBYRANK z -1 -1`, `ZREMRANGEBYRANK z 5 9`, `ZREMRANGEBYRANK z 2 1`, `ZREMRANGEBYRANK z x 1`, `ZREMRANGEBYRANK none x 1`, `ZREMRANGEBYRANK none 0 1`, `ZRANGE z 0 -1 WITHSCORES`,
			`ZREMRANGEBYSCORE z (2 3`, `ZREMRANGEBYSCORE z 100 200`, `ZREMRANGEBYSCORE z 3 2`, `ZREMRANGEBYSCORE z a 2`, `ZREMRANGEBYSCORE none a 2`, `ZREMRANGEBYSCORE none 1 2`, `ZRANGE z 0 -1 WITHSCORES`, `ZREMRANGEBYSCORE z -inf +inf`, `EXISTS z`,
			`ZREMRANGEBYLEX lex [a (b`, `ZREMRANGEBYLEX lex a b`, `ZREMRANGEBYLEX none - +`, `ZRANGE lex 0 -1`, `ZREMRANGEBYLEX lex - +`, `EXISTS lex`, `ZREMRANGEBYSCORE z 1`, `ZREMRANGEBYSCORE z 1 2 3`,
		)
	})
}

func TestSortedSetPops(t *testing.T) {
	inBoth(t, func(p *redistest.Pair) {
		p.Same(
			`ZADD z 1 a 2 b 3 c 4 d 5 e 6 f`, `ZPOPMIN z`, `ZPOPMAX z`, `ZPOPMIN z 2`, `ZPOPMAX z 1`, `ZPOPMIN z 0`, `ZPOPMAX z 5`, `EXISTS z`, `ZPOPMIN z`, `ZPOPMIN z 3`, `ZPOPMIN z 0`,
			`ZPOPMIN z -1`, `ZPOPMIN z x`, `ZPOPMIN z 1 2`, `ZPOPMIN`, `ZPOPMAX z x y`, `RPUSH str v`, `ZPOPMIN str x`, `ZPOPMIN str`, `ZPOPMIN str 0`,
		)
	})
}
