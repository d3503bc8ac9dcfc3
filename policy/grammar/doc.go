// Package grammar reads the texts of policies into the checked tree of [policy.Definition],
// and writes trees as texts.
//
//   - ParseFile, ParseRecord and ParseEnvoy read texts. Their error is a [policy.Errors],
//     which says what is wrong, and where.
//   - Format writes a record in canonical form. If this text is read again, the result is
//     an equal record.
//   - Warnings returns the parts of a text that have no effect.
//   - Reference and Schema describe the grammar, for people and for editors.
//   - PolicyRows, LimitFields and similar functions return the content of a tree, key by
//     key, and what an edit of each key does to counters.
//
// All of these use the tables of [entry].
package grammar
