package engine

import (
	"crypto/sha256"
	"encoding/binary"

	"github.com/headgate-io/headgate/engine/effects"
	"github.com/headgate-io/headgate/shard"
)

// Digest sums up a table, so that the tables of two nodes can be compared.
type Digest struct {
	// Sum adds up SHA-256 hashes, modulo 2^64 in each of four words, so the order of keys
	// does not matter. Each key is hashed with its limit, deadline and state. System
	// records are included.
	Sum [sha256.Size]byte
	// Keys is how many keys the Sum includes.
	Keys int
}

// Plus returns the digest of two tables together.
func (d Digest) Plus(o Digest) Digest {
	for at := 0; at < len(d.Sum); at += 8 {
		word := binary.LittleEndian.Uint64(d.Sum[at:]) + binary.LittleEndian.Uint64(o.Sum[at:])
		binary.LittleEndian.PutUint64(d.Sum[at:], word)
	}
	d.Keys += o.Keys
	return d
}

// Digest sums up the keys that have not expired at engine time now. It locks a shard for
// a few hundred keys at a time, so it shows no single instant if the table changes
// meanwhile. A sealed table is read too.
func (e *Engine) Digest(now int64) Digest {
	var d Digest
	var sum [sha256.Size / 8]uint64
	var buf []byte
	add := func(one [sha256.Size]byte) {
		for w := range sum {
			sum[w] += binary.LittleEndian.Uint64(one[8*w:])
		}
	}
	e.system.digest(add)
	for cursor := uint64(0); ; {
		cursor = e.table.Scan(cursor, boundedHold, func(ent shard.Entry) {
			if ent.Expired(now) {
				return
			}
			l := e.limits.get(ent.Meta()).Limit
			buf = effects.AppendLimit(buf[:0], l)
			buf = binary.AppendVarint(buf, ent.Deadline())
			buf = binary.AppendUvarint(buf, uint64(len(ent.Key())))
			buf = append(buf, ent.Key()...)
			buf = effects.AppendWire(buf, l.Algorithm, ent.State())
			if l.DB != 0 { // a state gives its own length, or is whole words
				buf = append(buf, l.DB)
			}
			add(sha256.Sum256(buf))
			d.Keys++
		})
		if cursor == 0 {
			break
		}
	}
	for w, v := range sum {
		binary.LittleEndian.PutUint64(d.Sum[8*w:], v)
	}
	return d
}
