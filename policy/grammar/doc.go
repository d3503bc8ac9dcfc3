// Package grammar reads the texts of policies and writes them: text -> the checked tree
// of [policy.Definition], and back.
//
//   - ParseFile, ParseRecord and ParseEnvoy read. Their error is a [policy.Errors],
//     which says what is wrong, and where.
//   - Format writes a record in canonical form, which is read as an equal record.
//   - Warnings returns the parts of a text that have no effect.
//   - Reference and Schema describe the grammar, for people and for editors.
//   - PolicyRows, LimitFields and their kin return the content of a tree, key by key,
//     with what an edit of each key does to counters.
//
// The tables of [entry] are the one source of all of these.
package grammar
