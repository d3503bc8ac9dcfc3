package sequence

import "slices"

// Each line: how often, and the command. A command that either server does not
// have is never asked for.

var stringCommands = templates(`
	20 SET {s} {value} [ ( EX {seconds} | PX {ms} | EXAT {at} | PXAT {atms} | KEEPTTL ) ] [ ( NX | XX ) ] [ GET ]
	10 GET {s}
	3 GETSET {s} {value}
	3 GETDEL {s}
	4 GETEX {s} [ ( EX {seconds} | PX {ms} | EXAT {at} | PXAT {atms} | PERSIST ) ]
	4 SETEX {s} {seconds} {value}
	4 PSETEX {s} {ms} {value}
	4 SETNX {s} {value}
	5 MGET ( {s} | {key} )+
	4 MSET ( {s} {value} )+
	2 MSETNX ( {key} {value} )+
	4 APPEND {s} {value}
	3 STRLEN {s}
	3 SETRANGE {s} {offset} {value}
	4 GETRANGE {s} {index} {index}
	1 SUBSTR {s} {index} {index}
	1 SETBIT {s} {offset} {bit}
	1 GETBIT {s} {offset}
	1 BITCOUNT {s} [ {index} {index} ]
	1 LCS {s} {s} [ LEN ]
`)

var counterCommands = templates(`
	10 INCR {s}
	4 DECR {s}
	10 INCRBY {s} {int}
	4 DECRBY {s} {int}
	5 INCRBYFLOAT {s} {float}
`)

var keyCommands = templates(`
	6 DEL ( {key} )+
	3 UNLINK ( {key} )+
	5 EXISTS ( {key} )+
	2 TOUCH ( {key} )+
	4 TYPE {key}
	6 TTL {key}
	6 PTTL {key}
	3 EXPIRETIME {key}
	3 PEXPIRETIME {key}
	7 EXPIRE {key} {seconds} [ ( NX | XX | GT | LT | XX GT ) ]
	7 PEXPIRE {key} {ms} [ ( NX | XX | GT | LT | XX LT ) ]
	4 EXPIREAT {key} {at} [ ( NX | XX | GT | LT ) ]
	4 PEXPIREAT {key} {atms} [ ( NX | XX | GT | LT ) ]
	5 PERSIST {key}
	4 RENAME {key} {key}
	3 RENAMENX {key} {key}
	3 COPY {key} {key} [ DB {db} ] [ REPLACE ]
	3 MOVE {key} {db}
	3 KEYS {pattern}
	2 DBSIZE
	1 RANDOMKEY
`)

var connectionCommands = templates(`
	10 SELECT {db}
	2 PING [ {value} ]
	2 ECHO {value}
	1 UNWATCH
	1 HELLO ( 2 | 3 )
	1 FLUSHDB [ ( ASYNC | SYNC ) ]
	1 SELECT {index}
	1 NOSUCHCOMMAND {value} {value}
`)

var hashCommands = templates(`
	14 HSET {h} ( {member} {value} )+
	5 HMSET {h} ( {member} {value} )+
	3 HSETNX {h} {member} {value}
	6 HGET {h} {member}
	6 HMGET {h} ( {member} )+
	6 HGETALL {h}
	6 HDEL {h} ( {member} )+
	7 HINCRBY {h} {member} {int}
	4 HINCRBYFLOAT {h} {member} {float}
	3 HLEN {h}
	3 HKEYS {h}
	3 HVALS {h}
	3 HEXISTS {h} {member}
	2 HSTRLEN {h} {member}
	1 HRANDFIELD {h} [ {sample} [ WITHVALUES ] ]
`)

var setCommands = templates(`
	14 SADD {set} ( {member} )+
	6 SREM {set} ( {member} )+
	5 SMEMBERS {set}
	4 SISMEMBER {set} {member}
	3 SMISMEMBER {set} ( {member} )+
	3 SCARD {set}
	3 SMOVE {set} {set} {member}
	2 SINTER ( {set} )+
	2 SUNION ( {set} )+
	2 SDIFF ( {set} )+
	2 SINTERSTORE ( {set} )+
	2 SUNIONSTORE {set} ( {set} )+
	2 SDIFFSTORE {set} ( {set} )+
	1 SINTERCARD 2 {set} {set} [ LIMIT {count} ]
	1 SRANDMEMBER {set} [ {sample} ]
`)

var sortedSetCommands = templates(`
	20 ZADD {z} [ ( NX | XX ) ] [ ( GT | LT ) ] [ CH ] ( {score} {member} )+
	3 ZADD {z} [ ( NX | XX | GT | LT ) ] INCR {score} {member}
	6 ZREM {z} ( {member} )+
	4 ZCARD {z}
	4 ZCOUNT {z} {min} {max}
	4 ZSCORE {z} {member}
	2 ZMSCORE {z} ( {member} )+
	5 ZINCRBY {z} {score} {member}
	3 ZRANK {z} {member}
	3 ZREVRANK {z} {member}
	6 ZRANGE {z} {index} {index} [ REV ] [ WITHSCORES ]
	5 ZRANGE {z} {min} {max} BYSCORE [ REV ] [ LIMIT {index} {count} ] [ WITHSCORES ]
	3 ZREVRANGE {z} {index} {index} [ WITHSCORES ]
	5 ZRANGEBYSCORE {z} {min} {max} [ WITHSCORES ] [ LIMIT {index} {count} ]
	3 ZREVRANGEBYSCORE {z} {max} {min} [ WITHSCORES ] [ LIMIT {index} {count} ]
	5 ZREMRANGEBYSCORE {z} {min} {max}
	3 ZREMRANGEBYRANK {z} {index} {index}
	3 ZPOPMIN {z} [ {count} ]
	3 ZPOPMAX {z} [ {count} ]
	1 ZRANGESTORE {z} {z} {index} {index} [ REV ]
	1 ZUNIONSTORE {z} 2 {z} {z} [ AGGREGATE ( SUM | MIN | MAX ) ]
	1 ZINTERSTORE {z} 2 {z} {z} [ AGGREGATE ( SUM | MIN | MAX ) ]
	1 ZDIFFSTORE {z} 2 {z} {z}
	1 ZRANDMEMBER {z} [ {sample} [ WITHSCORES ] ]
`)

// Ranges of members say something only where all scores are equal, so they have
// a key of their own.
var lexicalCommands = templates(`
	6 ZADD lex 0 {member}
	3 ZADD lex ( 0 {member} )+
	1 ZREM lex {member}
	3 ZRANGEBYLEX lex {lex} {lex} [ LIMIT {index} {count} ]
	2 ZREVRANGEBYLEX lex {lex} {lex} [ LIMIT {index} {count} ]
	3 ZRANGE lex {lex} {lex} BYLEX [ REV ] [ LIMIT {index} {count} ]
	2 ZLEXCOUNT lex {lex} {lex}
	1 ZREMRANGEBYLEX lex {lex} {lex}
`)

var listCommands = templates(`
	12 LPUSH {l} ( {value} )+
	12 RPUSH {l} ( {value} )+
	2 LPUSHX {l} ( {value} )+
	2 RPUSHX {l} ( {value} )+
	4 LLEN {l}
	5 LINDEX {l} {index}
	7 LRANGE {l} {index} {index}
	5 LTRIM {l} {index} {index}
	5 LPOP {l} [ {count} ]
	5 RPOP {l} [ {count} ]
	3 LSET {l} {index} {value}
	3 LREM {l} {index} {value}
	2 LINSERT {l} ( BEFORE | AFTER ) {value} {value}
	2 LPOS {l} {value} [ RANK {index} ] [ COUNT {count} ] [ MAXLEN {count} ]
	2 LMOVE {l} {l} ( LEFT | RIGHT ) ( LEFT | RIGHT )
	2 RPOPLPUSH {l} {l}
`)

// groups are the lists that a sequence draws from, by the name that a run can
// choose them by.
var groups = []struct {
	name      string
	weight    int
	templates []template
}{
	{"strings", 25, stringCommands},
	{"counters", 12, counterCommands},
	{"keys", 22, keyCommands},
	{"connection", 4, connectionCommands},
	{"hashes", 18, hashCommands},
	{"sets", 14, setCommands},
	{"sortedsets", 20, sortedSetCommands},
	{"lexical", 2, lexicalCommands},
	{"lists", 14, listCommands},
}

// composed are the commands of steps that are not made from a template.
var composed = []string{"MULTI", "EXEC", "DISCARD", "WATCH", "FLUSHALL", "RESET", "SCAN", "HSCAN", "SSCAN", "ZSCAN", "SPOP",
	"EVAL", "EVALSHA", "EVAL_RO", "EVALSHA_RO", "SCRIPT"}

// Groups returns the names of the groups of commands.
func Groups() []string {
	names := []string{"tx", "watch", "scan", "scripts"}
	for i := range groups {
		names = append(names, groups[i].name)
	}
	return names
}

// Commands returns the names of all commands that sequences are made of, in
// upper case and in order.
func Commands() []string {
	names := slices.Clone(composed)
	for i := range groups {
		for _, t := range groups[i].templates {
			names = append(names, t.name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}
