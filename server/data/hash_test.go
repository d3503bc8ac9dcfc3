package data_test

import (
	"testing"

	"github.com/headgate-io/headgate/internal/redistest"
)

func TestHashes(t *testing.T) {
	inBoth(t, func(p *redistest.Pair) {
		p.Same(
			`HSET h a 1 b 2 a 3`, `HGETALL h`, `HSET h a 1`, `HSET h c "" "" d`, `HGETALL h`, `HKEYS h`, `HVALS h`, `HLEN h`,
			`HMSET h e 5 f 6`, `HSETNX h a 9`, `HSETNX h new 9`, `HSETNX absent a 1`, `HGET absent a`,
			`HGET h a`, `HGET h none`, `HGET none a`, `HMGET h a none b`, `HMGET none a b`, `HEXISTS h a`, `HEXISTS h none`, `HEXISTS none a`,
			`HSTRLEN h a`, `HSTRLEN h none`, `HSTRLEN none a`, `HLEN none`, `HGETALL none`, `HKEYS none`, `HVALS none`,
			`HSET bin "a\x00b" "\r\n" "\xff" "\x00"`, `HGETALL bin`, `HGET bin "a\x00b"`, `TYPE h`,
			`HDEL h a none a b`, `HGETALL h`, `HDEL none a`, `HDEL h c "" e f`, `HLEN h`, `HDEL h new`, `EXISTS h`, `HGETALL h`,
			// the arity
			`HSET`, `HSET h`, `HSET h a`, `HSET h a 1 b`, `HMSET h a 1 b`, `HMSET h a`, `HSETNX h a`, `HSETNX h a b c`, `HGET h`, `HGET h a b`, `HMGET h`,
			`HDEL h`, `HLEN`, `HLEN a b`, `HKEYS`, `HVALS`, `HGETALL`, `HGETALL a b`, `HEXISTS h`, `HSTRLEN h`, `EXISTS h`,
		)
	})
}

func TestHashIncrements(t *testing.T) {
	inBoth(t, func(p *redistest.Pair) {
		p.Same(
			`HINCRBY h n 5`, `HINCRBY h n -7`, `HGET h n`, `HINCRBY h n 0`, `HINCRBY h n x`, `HINCRBY h n 1.5`, `HINCRBY h n ""`, `HINCRBY h n " 1"`, `HINCRBY h n 9223372036854775808`,
			`HSET h s abc f 1.5 lead 007 space " 1" max 9223372036854775807 min -9223372036854775808 none ""`,
			`HINCRBY h s 1`, `HINCRBY h f 1`, `HINCRBY h lead 1`, `HINCRBY h space 1`, `HINCRBY h none 1`, `HINCRBY h max 1`, `HINCRBY h max 0`, `HINCRBY h max -1`, `HINCRBY h min -1`, `HINCRBY h min 1`,
			`HINCRBY h max 9223372036854775807`, `HINCRBY h n -9223372036854775808`, `HGETALL h`, `HINCRBY h`, `HINCRBY h a 1 2`, `HINCRBY fresh a x`, `EXISTS fresh`,
			`HINCRBYFLOAT h n 0.1`, `HINCRBYFLOAT d a 0.1`, `HINCRBYFLOAT d a 0.2`, `HINCRBYFLOAT d a -0.3`, `HINCRBYFLOAT d a 3`, `HGET d a`, `HINCRBYFLOAT d b 5e3`, `HINCRBYFLOAT d b 1e-5`,
			`HINCRBYFLOAT d a x`, `HINCRBYFLOAT d a ""`, `HINCRBYFLOAT d a inf`, `HINCRBYFLOAT d a -inf`, `HINCRBYFLOAT d a nan`, `HINCRBYFLOAT d a " 1"`, `HINCRBYFLOAT d a 1e5000`,
			`HSET d s abc i inf e "" l " 1"`, `HINCRBYFLOAT d s 1`, `HINCRBYFLOAT d i 1`, `HINCRBYFLOAT d e 1`, `HINCRBYFLOAT d l 1`, `HINCRBYFLOAT d huge 1e4900`, `HSET d m 1e4932`, `HINCRBYFLOAT d m 1e4932`,
			`HINCRBYFLOAT d t 10.50`, `HINCRBYFLOAT d t 0.1`, `HINCRBYFLOAT d x 0x10`, `HSET d y 0x1p4`, `HINCRBYFLOAT d y 0.5`, `HINCRBYFLOAT none a x`, `EXISTS none`,
		)
		inAnyOrder(p, `HGETALL d`)
	})
}

func TestCollectionsKeepTheirTime(t *testing.T) {
	inBoth(t, func(p *redistest.Pair) {
		p.Same(
			`HSET h a 1`, `SADD s a b`, `ZADD z 1 a 2 b`, `RPUSH l a b`,
			`EXPIRE h 100`, `EXPIRE s 100`, `EXPIRE z 100`, `EXPIRE l 100`,
			`HSET h a 2 b 3`, `HINCRBY h a 1`, `HDEL h b`, `TTL h`, `SADD s c`, `SREM s a`, `TTL s`, `ZADD z 3 c`, `ZINCRBY z 1 c`, `ZREM z a`, `ZREMRANGEBYSCORE z 2 2`, `TTL z`,
			`RPUSH l c`, `LPOP l`, `LSET l 0 x`, `LTRIM l 0 0`, `TTL l`,
			`HDEL h a`, `HSET h a 1`, `TTL h`, `SREM s b c`, `SADD s a`, `TTL s`, `ZREM z c`, `ZADD z 1 a`, `TTL z`, `LPOP l`, `RPUSH l a`, `TTL l`,
			`EXPIRE h 100`, `PERSIST h`, `TTL h`, `PEXPIRE h 1`,
		)
	})
}

func TestCollectionsOfAnotherKind(t *testing.T) {
	reads := map[string][]string{
		"hash":   {`HGET %s a`, `HMGET %s a`, `HGETALL %s`, `HKEYS %s`, `HVALS %s`, `HLEN %s`, `HEXISTS %s a`, `HSTRLEN %s a`, `HSCAN %s 0`, `HRANDFIELD %s`, `HRANDFIELD %s 1`, `HSET %s a 1`, `HMSET %s a 1`, `HSETNX %s a 1`, `HDEL %s a`, `HINCRBY %s a 1`, `HINCRBYFLOAT %s a 1`},
		"set":    {`SMEMBERS %s`, `SISMEMBER %s a`, `SMISMEMBER %s a`, `SCARD %s`, `SSCAN %s 0`, `SRANDMEMBER %s`, `SRANDMEMBER %s 1`, `SPOP %s`, `SPOP %s 1`, `SADD %s a`, `SREM %s a`, `SMOVE %s other a`, `SMOVE set1 %s a`, `SINTER %s`, `SINTER none %s`, `SUNION set1 %s`, `SDIFF none %s`, `SINTERCARD 2 none %s`},
		"zset":   {`ZADD %s 1 a`, `ZADD %s XX 1 a`, `ZINCRBY %s 1 a`, `ZREM %s a`, `ZCARD %s`, `ZCOUNT %s 0 1`, `ZLEXCOUNT %s - +`, `ZSCORE %s a`, `ZMSCORE %s a`, `ZRANK %s a`, `ZREVRANK %s a`, `ZRANGE %s 0 -1`, `ZREVRANGE %s 0 -1`, `ZRANGEBYSCORE %s 0 1`, `ZREVRANGEBYSCORE %s 1 0`, `ZRANGEBYLEX %s - +`, `ZREVRANGEBYLEX %s + -`, `ZREMRANGEBYRANK %s 0 1`, `ZREMRANGEBYSCORE %s 0 1`, `ZREMRANGEBYLEX %s - +`, `ZPOPMIN %s`, `ZPOPMAX %s 0`, `ZSCAN %s 0`, `ZRANDMEMBER %s`, `ZRANDMEMBER %s 0`},
		"list":   {`LPUSH %s a`, `RPUSH %s a`, `LPUSHX %s a`, `RPUSHX %s a`, `LPOP %s`, `RPOP %s 0`, `LLEN %s`, `LINDEX %s x`, `LRANGE %s 0 -1`, `LTRIM %s 0 -1`, `LSET %s x a`, `LREM %s 0 a`, `LINSERT %s BEFORE a b`, `LPOS %s a`, `LPOS %s a COUNT 1`, `LMOVE %s other LEFT LEFT`, `LMOVE list1 %s LEFT LEFT`, `RPOPLPUSH %s other`, `RPOPLPUSH none %s`},
		"string": {`GET %s`, `INCR %s`, `APPEND %s a`, `STRLEN %s`},
	}
	keys := map[string]string{"hash": "hash1", "set": "set1", "zset": "zset1", "list": "list1", "string": "string1"}
	inBoth(t, func(p *redistest.Pair) {
		p.Same(`HSET hash1 a 1`, `SADD set1 a`, `ZADD zset1 1 a`, `RPUSH list1 a`, `SET string1 a`)
		for kind, commands := range reads {
			for other, key := range keys {
				if other == kind {
					continue
				}
				for _, c := range commands {
					p.Same(replaceKey(c, key))
				}
			}
		}
		p.Same(`HGETALL hash1`, `SMEMBERS set1`, `ZRANGE zset1 0 -1 WITHSCORES`, `LRANGE list1 0 -1`, `GET string1`,
			`TYPE hash1`, `TYPE set1`, `TYPE zset1`, `TYPE list1`, `EXISTS other`)
	})
}
