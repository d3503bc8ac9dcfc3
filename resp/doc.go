// Package resp reads commands and writes replies of the Redis serialization protocol,
// versions 2 and 3.
//
// Parser reads commands from the bytes of a connection (multibulk and inline). Writer
// appends replies to a buffer. Both work on buffers of the caller: a parsed argument refers
// to the buffer that it was parsed from.
//
// # Concurrency
//
// Neither type is safe for concurrent use.
package resp
