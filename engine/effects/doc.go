// Package effects has the byte formats of what is replicated: payloads of a batch's
// effects, and the chunks of snapshots. It knows no table and no lock.
//
//   - Encoder writes payloads of at most so many bytes; Reader reads one, an Effect at a
//     time, and gives what is no key's state to a Sink.
//   - Limits, which the engine's interner is, knows the limits by the ids of records.
//   - Changer finds the Delta of a large state to the one before, and Rebaser makes the
//     state of it.
//   - Decoder reads the integers and bytes that all of these are made of.
//
// What is different between kinds of state is a row of codecs (codec.go). DESIGN.md has
// the formats and the reasons.
package effects
