// Package effects has the byte formats of replication: the payloads that hold a batch's
// effects, and the chunks of snapshots. It does not know tables or locks.
//
//   - Encoder writes payloads of bounded size. Reader reads a payload, one Effect after
//     the other. It passes records that are not states of keys to a Sink.
//   - Limits, which the engine's interner implements, maps the ids of records to limits.
//   - Changer finds a Delta: how a large state differs from the key's previous state.
//     Rebaser applies a Delta.
//   - Decoder reads integers and bytes, the elements of all these formats.
//
// Kinds of state differ only in their rows of the table codecs (codec.go). DESIGN.md has
// the formats and the reasons.
package effects
