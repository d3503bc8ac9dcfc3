package keycopy

import (
	"fmt"
	"iter"

	"github.com/redis/go-redis/v9"
)

// chunks yields s in parts of at most n.
func chunks[T any](s []T, n int) iter.Seq[[]T] {
	return func(yield func([]T) bool) {
		for len(s) > 0 {
			part := s[:min(n, len(s))]
			if !yield(part) {
				return
			}
			s = s[len(part):]
		}
	}
}

// values returns the elements of a reply.
func values(reply redis.Cmder) []any {
	strs := reply.(*redis.StringSliceCmd).Val()
	all := make([]any, len(strs))
	for i, s := range strs {
		all[i] = s
	}
	return all
}

// pairs returns the fields and values of HGETALL; in RESP2 the reply is an array.
func pairs(reply any) []any {
	all, ok := reply.([]any)
	if !ok {
		panic(fmt.Sprintf("keycopy: HGETALL has replied %T", reply))
	}
	return all
}
