package data_test

import (
	"testing"

	"github.com/headgate-io/headgate/internal/redistest"
)

func TestLists(t *testing.T) {
	inBoth(t, func(p *redistest.Pair) {
		p.Same(
			`RPUSH l a b c`, `LPUSH l 1 2`, `LRANGE l 0 -1`, `LLEN l`, `LLEN none`, `LPUSHX none a`, `RPUSHX none a b`, `EXISTS none`, `LPUSHX l x y`, `RPUSHX l z`, `TYPE l`,
			`LRANGE l 0 -1`, `LRANGE l 1 2`, `LRANGE l -3 -1`, `LRANGE l 5 1`, `LRANGE l -100 100`, `LRANGE l 100 200`, `LRANGE none 0 -1`, `LRANGE l x 1`, `LRANGE none 0 x`,
			`LINDEX l 0`, `LINDEX l -1`, `LINDEX l 100`, `LINDEX l -100`, `LINDEX none x`, `LINDEX l x`, `LINDEX none 0`, `LINDEX l 9223372036854775807`, `LINDEX l -9223372036854775808`,
			`LSET l 0 new`, `LSET l -1 last`, `LSET l 100 x`, `LSET l -100 x`, `LSET l x y`, `LSET none x y`, `LSET none 0 y`, `LSET l 1 ""`, `LRANGE l 0 -1`,
			`LPOP l`, `RPOP l`, `LPOP l 2`, `RPOP l 2`, `LPOP l 0`, `LPOP none`, `RPOP none 2`, `LPOP none 0`, `LPOP l -1`, `LPOP l x`, `LPOP l 1 2`, `RPOP none x`, `LRANGE l 0 -1`, `LPOP l 100`, `EXISTS l`,
			`RPUSH l a b a c a`, `LREM l 1 a`, `LRANGE l 0 -1`, `LREM l -1 a`, `LRANGE l 0 -1`, `LREM l 0 a`, `LREM l 0 none`, `LREM none 0 a`, `LREM l x a`, `LREM none x a`, `LREM l -9223372036854775808 a`, `LREM l 9223372036854775807 b`, `LRANGE l 0 -1`, `LREM l 0 c`, `EXISTS l`,
			`RPUSH l a b c b`, `LINSERT l BEFORE b x`, `LINSERT l after b y`, `LINSERT l BEFORE none x`, `LINSERT none BEFORE a x`, `LINSERT l BAD b x`, `LINSERT none BAD b x`, `LINSERT l BEFORE a first`, `LINSERT l AFTER none x`, `LRANGE l 0 -1`,
			`LTRIM l 1 -2`, `LRANGE l 0 -1`, `LTRIM l 0 100`, `LRANGE l 0 -1`, `LTRIM l -2 -1`, `LRANGE l 0 -1`, `LTRIM l x 1`, `LTRIM none x 1`, `LTRIM none 0 1`, `LTRIM l 5 1`, `EXISTS l`,
			`RPUSH l a`, `LTRIM l 1 0`, `EXISTS l`, `RPUSH l a b c`, `LTRIM l 100 200`, `EXISTS l`, `RPUSH l "a\x00b" "\r\n"`, `LRANGE l 0 -1`, `LREM l 0 "a\x00b"`, `LRANGE l 0 -1`,
			`LPUSH`, `LPUSH l`, `RPUSHX l`, `LPOP`, `LLEN`, `LLEN a b`, `LINDEX l`, `LRANGE l 0`, `LTRIM l 0`, `LSET l 0`, `LREM l 0`, `LINSERT l BEFORE a`, `LMOVE a b LEFT`, `RPOPLPUSH a`,
		)
	})
}

func TestListPositions(t *testing.T) {
	inBoth(t, func(p *redistest.Pair) {
		p.Same(`RPUSH l a b c 1 2 3 c c`)
		for _, options := range []string{"", " RANK 1", " RANK 2", " RANK -1", " RANK -2", " RANK 4", " RANK -4", " COUNT 0", " COUNT 1", " COUNT 2", " COUNT 100", " RANK 2 COUNT 0", " RANK -1 COUNT 2", " RANK 2 COUNT 2", " MAXLEN 3", " MAXLEN 2",
			" MAXLEN 1 RANK -1", " MAXLEN 3 COUNT 0 RANK -1", " MAXLEN 0 COUNT 0", " RANK 0", " RANK x", " RANK -9223372036854775808", " RANK -9223372036854775807", " COUNT -1", " COUNT x", " MAXLEN -1", " MAXLEN x", " RANK", " BAD 1", " rank 1 RANK 2", " COUNT 1 COUNT 0"} {
			p.Same(`LPOS l c`+options, `LPOS l none`+options, `LPOS none c`+options)
		}
		p.Same(`LPOS l`, `LPOS`)
	})
}

func TestListMoves(t *testing.T) {
	inBoth(t, func(p *redistest.Pair) {
		p.Same(`RPUSH a 1 2 3 4`, `LMOVE a b LEFT RIGHT`, `LMOVE a b RIGHT LEFT`, `LMOVE a b left left`, `LRANGE a 0 -1`, `LRANGE b 0 -1`, `RPOPLPUSH a b`, `EXISTS a`, `LRANGE b 0 -1`, `RPOPLPUSH a b`, `LMOVE a b LEFT LEFT`,
			`RPOPLPUSH b b`, `LRANGE b 0 -1`, `LMOVE b b LEFT RIGHT`, `LRANGE b 0 -1`, `LMOVE b b LEFT LEFT`, `LMOVE b b RIGHT RIGHT`, `LRANGE b 0 -1`, `RPUSH one 1`, `RPOPLPUSH one one`, `LRANGE one 0 -1`, `EXPIRE b 100`, `RPOPLPUSH b b`, `TTL b`,
			`LMOVE b c BAD LEFT`, `LMOVE b c LEFT BAD`, `LMOVE none c UP LEFT`, `SADD str v`, `LMOVE b str LEFT LEFT`, `LMOVE str b LEFT LEFT`, `LMOVE none str LEFT LEFT`, `LRANGE b 0 -1`)
	})
}
