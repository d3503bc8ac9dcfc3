package envoy

import (
	"unsafe"

	"google.golang.org/grpc/encoding"
	_ "google.golang.org/grpc/encoding/proto" // registers the default codec
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
)

// # Messages
//
// This package decodes requests and encodes answers itself, without generated code.
// Generated code rejects text that is not UTF-8, but Envoy sends all bytes that a client
// puts into a header field. The error would let the client's request pass if
// failure_mode_deny is false. Generated code also takes three times as long.

// codec is the codec of Protocol Buffers, with its own handling of this service's messages.
type codec struct{ encoding.CodecV2 }

func newCodec() codec { return codec{encoding.GetCodecV2("proto")} }

// message is an encoded message.
type message []byte

// Marshal implements encoding.CodecV2.
func (c codec) Marshal(v any) (mem.BufferSlice, error) {
	if m, ok := v.(message); ok {
		return mem.BufferSlice{mem.SliceBuffer(m)}, nil
	}
	return c.CodecV2.Marshal(v)
}

// Unmarshal implements encoding.CodecV2.
func (c codec) Unmarshal(data mem.BufferSlice, v any) error {
	x, ok := v.(*exchange)
	if !ok {
		return c.CodecV2.Unmarshal(data, v)
	}
	n := data.Len()
	if cap(x.body) < n {
		x.body = make([]byte, n)
	}
	x.body = x.body[:n]
	data.CopyTo(x.body)
	x.wrong = x.parse(x.body)
	return nil
}

// field is a field of a message: a number, or bytes.
type field struct {
	number protowire.Number
	kind   protowire.Type
	n      uint64
	b      []byte
}

// each calls do with each field of a message that is a varint or bytes. Fields of other
// types have no meaning here.
func each(b []byte, do func(f field) error) error {
	for len(b) > 0 {
		number, kind, n := protowire.ConsumeTag(b)
		if n < 0 {
			return protowire.ParseError(n)
		}
		b = b[n:]
		f := field{number: number, kind: kind}
		switch kind {
		case protowire.VarintType:
			f.n, n = protowire.ConsumeVarint(b)
		case protowire.BytesType:
			f.b, n = protowire.ConsumeBytes(b)
		default:
			n = protowire.ConsumeFieldValue(number, kind, b)
		}
		if n < 0 {
			return protowire.ParseError(n)
		}
		b = b[n:]
		if err := do(f); err != nil {
			return err
		}
	}
	return nil
}

// is reports whether a field has a number and a type.
func (f *field) is(number protowire.Number, kind protowire.Type) bool {
	return f.number == number && f.kind == kind
}

// text returns a view of the bytes.
func (f *field) text() string { return unsafe.String(unsafe.SliceData(f.b), len(f.b)) }

// An embedded message is preceded by its length, which is known only after it is written.
// begin leaves one byte for the length, and end writes the length.
func begin(b []byte, number protowire.Number) (into []byte, at int) {
	b = append(protowire.AppendTag(b, number, protowire.BytesType), 0)
	return b, len(b)
}

func end(b []byte, at int) []byte {
	n := len(b) - at
	if more := protowire.SizeVarint(uint64(n)) - 1; more > 0 {
		b = append(b, make([]byte, more)...)
		copy(b[at+more:], b[at:at+n])
	}
	protowire.AppendVarint(b[:at-1], uint64(n))
	return b
}

// appendVarint appends a number. It leaves out 0, which is the default.
func appendVarint(b []byte, number protowire.Number, n uint64) []byte {
	if n == 0 {
		return b
	}
	return protowire.AppendVarint(protowire.AppendTag(b, number, protowire.VarintType), n)
}

// appendText appends a text, unless it is empty.
func appendText[S ~string | ~[]byte](b []byte, number protowire.Number, s S) []byte {
	if len(s) == 0 {
		return b
	}
	return protowire.AppendBytes(protowire.AppendTag(b, number, protowire.BytesType), []byte(s))
}
