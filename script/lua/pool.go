package lua

import "unsafe"

// pool keeps the first tables of a run, their array parts, and its first short strings. A
// limiter makes a few small ones (KEYS, ARGV, replies, its result). From the second run on,
// these need no new memory.
type pool struct {
	tables []Table
	array  []Value
	bytes  []byte
	used   int // of tables
	taken  int // of array
}

const (
	pooledTables = 16
	pooledValues = 96
	pooledBytes  = 2048
	// pooledText is the longest string that is pooled.
	pooledText = 128
)

// text returns a string with the bytes of b.
func (p *pool) text(b []byte) string {
	if p.bytes == nil {
		p.bytes = make([]byte, 0, pooledBytes)
	}
	n := len(p.bytes)
	if len(b) == 0 || len(b) > pooledText || len(b) > pooledBytes-n {
		return string(b)
	}
	p.bytes = append(p.bytes, b...)
	return unsafe.String(&p.bytes[n], len(b))
}

// table returns an empty table.
func (p *pool) table() *Table {
	if p.used == len(p.tables) {
		if p.used > 0 {
			return new(Table)
		}
		p.tables, p.array = make([]Table, pooledTables), make([]Value, pooledValues)
	}
	p.used++
	return &p.tables[p.used-1]
}

// values returns an array part of n places.
func (p *pool) values(n int) []Value {
	if n == 0 {
		return nil
	}
	if n > len(p.array)-p.taken {
		return make([]Value, n)
	}
	p.taken += n
	return p.array[p.taken-n : p.taken : p.taken]
}

// clean empties the pool, when nobody uses its tables any more.
func (p *pool) clean() {
	clear(p.tables[:p.used])
	clear(p.array[:p.taken])
	p.bytes, p.used, p.taken = p.bytes[:0], 0, 0
}
