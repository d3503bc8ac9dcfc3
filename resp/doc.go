// Package resp reads commands and writes replies of the Redis serialization
// protocol, versions 2 and 3.
//
// Parser turns the bytes of a connection into commands (multibulk and inline),
// Writer appends replies to a buffer. Both work on buffers of the caller: a
// parsed argument is a view into the buffer it was parsed from.
//
// # Concurrency
//
// Neither type is safe for concurrent use.
package resp
