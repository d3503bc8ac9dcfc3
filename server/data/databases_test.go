package data_test

import (
	"testing"

	"github.com/headgate-io/headgate/internal/redistest"
)

func TestDatabases(t *testing.T) {
	inBoth(t, func(p *redistest.Pair) {
		p.Same(
			`SET k zero`, `SELECT 1`, `GET k`, `SET k one`, `INCR n`, `SELECT 15`, `GET k`, `SET k fifteen EX 100`, `DBSIZE`, `SELECT 0`, `GET k`, `DBSIZE`, `EXISTS n`,
			`SELECT 1`, `GET k`, `DBSIZE`, `DEL k`, `EXISTS k`, `SELECT 15`, `GET k`, `TTL k`, `TYPE k`, `OBJECT ENCODING k`, `RANDOMKEY`, `KEYS *`, `SCAN 0`, `SCAN 0 MATCH k* COUNT 100 TYPE string`,
			`SELECT 16`, `SELECT -1`, `SELECT x`, `SELECT 99999999999`, `SELECT 9999999999999999999`, `SELECT`, `SELECT 1 2`, `SELECT 01`, `GET k`,
			`FLUSHDB`, `DBSIZE`, `KEYS *`, `RANDOMKEY`, `SCAN 0`, `SELECT 1`, `DBSIZE`, `GET n`, `FLUSHDB ASYNC`, `SELECT 0`, `GET k`, `FLUSHDB SYNC`, `DBSIZE`, `FLUSHDB x`, `FLUSHALL ASYNC SYNC`,
			`SELECT 3`, `SET a 1`, `SELECT 4`, `SET a 2`, `SELECT 0`, `SET a 0`, `FLUSHALL`, `DBSIZE`, `SELECT 3`, `DBSIZE`, `EXISTS a`, `SELECT 4`, `EXISTS a`, `SELECT 0`,
		)
	})
}

func TestDatabasesInTransactions(t *testing.T) {
	inBoth(t, func(p *redistest.Pair) {
		p.Same(
			`MULTI`, `SET k 0`, `SELECT 2`, `SET k 2`, `GET k`, `SELECT 99`, `GET k`, `SELECT 3`, `EXEC`, `GET k`, `SET k 3`, `SELECT 0`, `GET k`, `SELECT 2`, `GET k`,
			`MULTI`, `SELECT 5`, `DISCARD`, `GET k`, `MULTI`, `SELECT 5`, `DBSIZE`, `SET x 1`, `DBSIZE`, `EXEC`, `GET x`, `SELECT 0`, `EXISTS x`,
			`WATCH k`, `SELECT 2`, `SET k changed`, `MULTI`, `SET done 1`, `EXEC`, // another k
			`WATCH k`, `SELECT 0`, `MULTI`, `SET done 1`, `SELECT 2`, `SET k again`, `EXEC`, `GET k`,
			`WATCH k`, `SET k other`, `SELECT 0`, `MULTI`, `SET never 1`, `EXEC`, `EXISTS never`, `SELECT 0`,
		)
	})
}

func TestMoveCopyRename(t *testing.T) {
	inBoth(t, func(p *redistest.Pair) {
		p.Same(
			`SET k v EX 100`, `MOVE k 1`, `EXISTS k`, `SELECT 1`, `GET k`, `TTL k`, `MOVE k 0`, `SELECT 0`, `GET k`, `SELECT 1`, `SET k other`, `MOVE k 0`, `GET k`, `MOVE none 0`, `MOVE k 1`, `MOVE none 1`, `MOVE k 16`, `MOVE k -1`, `MOVE k x`, `MOVE k`, `SELECT 0`,
			`COPY k c`, `GET c`, `TTL c`, `SET k changed`, `GET c`, `COPY k c`, `COPY k c REPLACE`, `GET c`, `TTL c`, `COPY k k`, `COPY k k REPLACE`, `COPY none c`, `COPY none c REPLACE`, `EXISTS c`, `COPY k c DB 7`, `COPY k c DB 7`, `COPY k k DB 7`, `COPY k c REPLACE DB 7`,
			`COPY k c DB 16`, `COPY k c DB -1`, `COPY k c DB x`, `COPY k c DB`, `COPY k c foo`, `COPY k`, `COPY k k DB 0`, `COPY none none DB 0`, `SELECT 7`, `GET c`, `GET k`, `COPY k k DB 0 REPLACE`, `COPY k back DB 0`, `SELECT 0`, `GET back`,
			`RENAME k r`, `EXISTS k`, `GET r`, `RENAME none x`, `RENAME none none`, `RENAME r r`, `SET t v EX 100`, `RENAME t r`, `GET r`, `TTL r`, `SET p v`, `RENAME p r`, `TTL r`, `RENAME r`, `RENAMENX r c`, `RENAMENX r fresh`, `GET fresh`, `RENAMENX none x`, `RENAMENX fresh fresh`, `RENAMENX none none`,
			`MULTI`, `SET a 1`, `RENAME a b`, `COPY b c DB 9 REPLACE`, `MOVE b 8`, `RENAMENX c d`, `EXEC`, `SELECT 8`, `GET b`, `SELECT 9`, `GET c`, `SELECT 0`, `DBSIZE`,
		)
	})
}

func TestKeysOfStrings(t *testing.T) {
	inBoth(t, func(p *redistest.Pair) {
		p.Same(
			`SET k v`, `TYPE k`, `TYPE none`, `EXPIRE k 100`, `TTL k`, `EXPIRE k 200 NX`, `EXPIRE k 200 XX`, `TTL k`, `EXPIRE k 100 GT`, `EXPIRE k 300 GT`, `EXPIRE k 400 LT`, `EXPIRE k 50 LT`, `TTL k`, `PERSIST k`, `PERSIST k`, `TTL k`, `PTTL k`, `EXPIRE k 100 GT`, `EXPIRE k 100 XX`, `EXPIRE k 100 LT`, `TTL k`,
			`PEXPIRE k 100000`, `TTL k`, `EXPIREAT k 4000000000`, `EXPIRETIME k`, `PEXPIREAT k 4000000000999`, `PEXPIRETIME k`, `EXPIRETIME k`, `EXPIREAT k 33177117420 XX`, `EXPIREAT k 9223372036854776`, `EXPIREAT k 9223372036854775`, `PEXPIREAT k 9223372036854775807`, `EXPIRE k 9223372036854775`, `EXPIRE k 9223370000000000`, `EXPIRE k -9223372036854776`, `EXPIRE none -9223372036854776`, `SET k v`, `TTL none`, `PTTL none`, `EXPIRETIME none`, `PEXPIRETIME none`, `PERSIST none`, `EXPIRE none 10`,
			`EXPIRE k x`, `EXPIRE k`, `EXPIRE k 10 FOO`, `EXPIRE k 10 NX XX`, `EXPIRE k 10 NX GT`, `EXPIRE k 10 GT LT`, `EXPIRE k 10 XX GT`, `EXPIRE k 9223372036854775807`, `EXPIREAT k 9223372036854775807`, `PEXPIRE k 9223372036854775807`, `EXPIRE k x FOO`, `EXPIRE none x`,
			`EXPIRE k -1`, `EXISTS k`, `SET k v`, `EXPIRE k 0`, `EXISTS k`, `SET k v`, `PEXPIREAT k 1`, `EXISTS k`, `SET k v`, `EXPIREAT k -10`, `EXISTS k`,
			`SET k v`, `DEL k none k`, `UNLINK k`, `SET a 1`, `SET b 2`, `EXISTS a b a none`, `TOUCH a b none`, `UNLINK a b`, `DEL`, `EXISTS`,
			`SET i 12345`, `OBJECT ENCODING i`, `SET i -9223372036854775808`, `OBJECT ENCODING i`, `SET i 9223372036854775808`, `OBJECT ENCODING i`, `SET i abc`, `OBJECT ENCODING i`, `SET i 01`, `OBJECT ENCODING i`, `SET i ""`, `OBJECT ENCODING i`,
			`SET i aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa`, `OBJECT ENCODING i`, `SET i aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa`, `OBJECT ENCODING i`, `OBJECT ENCODING none`, `OBJECT REFCOUNT i`, `OBJECT`, `OBJECT ENCODING`,
			`KEYS *`, `DBSIZE`, `SCAN 0`, `SCAN 0 TYPE string`, `SCAN 0 TYPE hash`, `SCAN 0 MATCH x*`, `SCAN 0 COUNT 0`, `SCAN 0 COUNT x`, `SCAN x`, `SCAN 0 FOO`, `SCAN 0 COUNT`, `RANDOMKEY`,
		)
		p.Sorted("MSET a 1 b 2 c 3", "KEYS *", "KEYS [ab]", "KEYS ?", "KEYS none*")
	})
}
