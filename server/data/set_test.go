package data_test

import (
	"testing"

	"github.com/headgate-io/headgate/internal/redistest"
)

func TestSets(t *testing.T) {
	inBoth(t, func(p *redistest.Pair) {
		p.Same(
			`SADD s 1 2 2 3`, `SADD s 1`, `SADD s 4 4`, `SCARD s`, `SISMEMBER s 1`, `SISMEMBER s 9`, `SISMEMBER none 1`, `SMISMEMBER s 1 9 2`, `SMISMEMBER none 1 2`,
			`SMEMBERS none`, `SCARD none`, `SREM s 1 9 1`, `SREM none 1`, `SCARD s`, `TYPE s`, `SADD s "" "a\x00b"`, `SISMEMBER s ""`, `SISMEMBER s "a\x00b"`, `SISMEMBER s a`,
			`SREM s 2 3 4 "" "a\x00b"`, `EXISTS s`,
			`SADD a x y`, `SADD b y`, `SMOVE a b x`, `SCARD a`, `SCARD b`, `SISMEMBER b x`, `SMOVE a b none`, `SMOVE none b x`, `SMOVE a a y`, `SMOVE a a none`, `SMOVE a b y`, `EXISTS a`, `SCARD b`, `SMOVE b new y`, `SMEMBERS new`,
			`SADD`, `SADD s`, `SREM s`, `SCARD`, `SCARD a b`, `SISMEMBER s`, `SISMEMBER s a b`, `SMISMEMBER s`, `SMEMBERS`, `SMEMBERS a b`, `SPOP`, `SRANDMEMBER`, `SMOVE a b`, `SMOVE a b c d`,
		)
		inAnyOrder(p, `SMEMBERS b`)
	})
}

func TestSetAlgebra(t *testing.T) {
	inBoth(t, func(p *redistest.Pair) {
		p.Same(`SADD a 1 2 3 4 x`, `SADD b 3 4 5 x`, `SADD c 4 x`, `RPUSH str v`)
		inAnyOrder(p,
			`SINTER a`, `SINTER a b`, `SINTER a b c`, `SINTER c b a`, `SINTER a none`, `SINTER none`, `SINTER none other`, `SINTER a a`,
			`SUNION a`, `SUNION a b c`, `SUNION none a`, `SUNION none`, `SUNION a a`,
			`SDIFF a`, `SDIFF a b`, `SDIFF a b c`, `SDIFF c a`, `SDIFF none a`, `SDIFF a none`, `SDIFF a a`)
		p.Same(
			`SINTERSTORE d a b`, `SCARD d`, `EXPIRE d 100`, `SUNIONSTORE d a b`, `SCARD d`, `TTL d`, `SDIFFSTORE d a b`, `SCARD d`, `SDIFFSTORE a a b`, `SCARD a`, `SUNIONSTORE a a b`, `SCARD a`,
			`SINTERSTORE d a none`, `EXISTS d`, `SINTERSTORE none2 none a`, `RPUSH other v`, `SUNIONSTORE other a`, `TYPE other`, `SCARD other`, `RPUSH other2 v`, `SINTERSTORE other2 none`, `EXISTS other2`, `SET text v`, `SDIFFSTORE text a c`, `TYPE text`, `SCARD text`,
			`SINTERSTORE d str`, `SUNIONSTORE d a str`, `SDIFFSTORE d none str`, `SINTERSTORE d`, `SUNIONSTORE`, `SDIFFSTORE a`, `SADD a 1 2 x`, `SREM a 5`,
			`SINTER a str`, `SINTER none str`, `SINTER none none2 str`, `SUNION a str`, `SUNION none str`, `SDIFF a str`, `SDIFF none str`, `SINTER`, `SUNION`, `SDIFF`,
			`SINTERCARD 1 a`, `SINTERCARD 2 a b`, `SINTERCARD 2 a b LIMIT 1`, `SINTERCARD 2 a b LIMIT 0`, `SINTERCARD 2 a b LIMIT 100`, `SINTERCARD 2 a none`, `SINTERCARD 2 a b limit 1 LIMIT 2`,
			`SINTERCARD 0 a`, `SINTERCARD -1 a`, `SINTERCARD x a`, `SINTERCARD 3 a b`, `SINTERCARD 1 a b`, `SINTERCARD 2 a b LIMIT`, `SINTERCARD 2 a b LIMIT -1`, `SINTERCARD 2 a b LIMIT x`, `SINTERCARD 2 a b BAD 1`, `SINTERCARD 1`, `SINTERCARD`, `SINTERCARD 2 a str`, `SINTERCARD 2 none str`,
		)
	})
}
