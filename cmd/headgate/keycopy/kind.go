package keycopy

import (
	"context"
	"errors"
	"fmt"

	"github.com/redis/go-redis/v9"

	"github.com/headgate-io/headgate/engine/packed"
)

// item is a key that is being copied.
type item struct {
	key   string
	kind  *kind
	size  int64       // elements, or units of 16 bytes of a string
	value redis.Cmder // the reply with the value
	ends  int64       // Unix ms by the source's clock; 0 means never
}

// kind says how to copy the values of one type.
type kind struct {
	// size asks for the number of elements, or of a string's bytes. most is the largest
	// size that the target can hold.
	size func(ctx context.Context, p redis.Pipeliner, key string) *redis.IntCmd
	most int64
	read func(ctx context.Context, p redis.Pipeliner, key string) redis.Cmder
	// write calls do with each command that writes the value.
	write func(it *item, do func(args ...any))
}

// kinds holds the types that can be copied, by the name that TYPE replies.
var kinds = map[string]*kind{
	"string": {
		size: func(ctx context.Context, p redis.Pipeliner, key string) *redis.IntCmd { return p.StrLen(ctx, key) },
		most: packed.MaxBytes,
		read: func(ctx context.Context, p redis.Pipeliner, key string) redis.Cmder { return p.Get(ctx, key) },
		write: func(it *item, do func(args ...any)) {
			do("SET", it.key, it.value.(*redis.StringCmd).Val())
		},
	},
	"hash": {
		size: func(ctx context.Context, p redis.Pipeliner, key string) *redis.IntCmd { return p.HLen(ctx, key) },
		most: packed.MaxEntries,
		// The reply keeps the source's order, which a Go map would lose.
		read: func(ctx context.Context, p redis.Pipeliner, key string) redis.Cmder { return p.Do(ctx, "HGETALL", key) },
		write: func(it *item, do func(args ...any)) {
			for part := range chunks(pairs(it.value.(*redis.Cmd).Val()), 2*chunk) {
				do(append([]any{"HSET", it.key}, part...)...)
			}
		},
	},
	"zset": {
		size: func(ctx context.Context, p redis.Pipeliner, key string) *redis.IntCmd { return p.ZCard(ctx, key) },
		most: packed.MaxEntries,
		read: func(ctx context.Context, p redis.Pipeliner, key string) redis.Cmder {
			return p.ZRangeWithScores(ctx, key, 0, -1)
		},
		write: func(it *item, do func(args ...any)) {
			for part := range chunks(it.value.(*redis.ZSliceCmd).Val(), chunk) {
				args := []any{"ZADD", it.key}
				for _, z := range part {
					args = append(args, z.Score, z.Member)
				}
				do(args...)
			}
		},
	},
	"set": {
		size: func(ctx context.Context, p redis.Pipeliner, key string) *redis.IntCmd { return p.SCard(ctx, key) },
		most: packed.MaxEntries,
		read: func(ctx context.Context, p redis.Pipeliner, key string) redis.Cmder { return p.SMembers(ctx, key) },
		write: func(it *item, do func(args ...any)) {
			for part := range chunks(values(it.value), chunk) {
				do(append([]any{"SADD", it.key}, part...)...)
			}
		},
	},
	"list": {
		size: func(ctx context.Context, p redis.Pipeliner, key string) *redis.IntCmd { return p.LLen(ctx, key) },
		most: packed.MaxElements,
		read: func(ctx context.Context, p redis.Pipeliner, key string) redis.Cmder { return p.LRange(ctx, key, 0, -1) },
		write: func(it *item, do func(args ...any)) {
			for part := range chunks(values(it.value), chunk) {
				do(append([]any{"RPUSH", it.key}, part...)...)
			}
		},
	},
}

// describe finds the types of keys, and leaves out the keys that the target cannot hold.
func (cfg *Config) describe(ctx context.Context, keys []string, t *Totals) ([]item, error) {
	types := make([]*redis.StatusCmd, len(keys))
	if _, err := cfg.From.Pipelined(ctx, func(p redis.Pipeliner) error {
		for i, key := range keys {
			types[i] = p.Type(ctx, key)
		}
		return nil
	}); err != nil && len(keys) > 0 {
		return nil, fmt.Errorf("ask for the types of keys: %w", err)
	}
	var items []item
	for i, key := range keys {
		switch name := types[i].Val(); {
		case name == "none":
			t.Gone++
		case kinds[name] == nil:
			t.Unsupported++
			cfg.refuse(key, fmt.Errorf("the target does not hold the type %s", name))
		default:
			items = append(items, item{key: key, kind: kinds[name]})
		}
	}
	if len(items) == 0 {
		return nil, nil
	}
	sizes := make([]*redis.IntCmd, len(items))
	if _, err := cfg.From.Pipelined(ctx, func(p redis.Pipeliner) error {
		for i := range items {
			sizes[i] = items[i].kind.size(ctx, p, items[i].key)
		}
		return nil
	}); err != nil && !changed(err) {
		return nil, fmt.Errorf("ask for the sizes of keys: %w", err)
	}
	left := items[:0]
	for i, it := range items {
		if sizes[i].Val() > it.kind.most {
			t.TooLarge++
			cfg.refuse(it.key, fmt.Errorf("the target holds values of this type up to a size of %d, and this one has %d", it.kind.most, sizes[i].Val()))
			continue
		}
		if it.size = sizes[i].Val(); it.kind.most == packed.MaxBytes {
			it.size /= 16
		}
		left = append(left, it)
	}
	return left, nil
}

// read reads values and times to live. It reads both of a key in one step.
func (cfg *Config) read(ctx context.Context, items []item, t *Totals) ([]item, error) {
	ttls := make([]*redis.Cmd, len(items)) // a time.Duration cannot hold every value
	times := make([]*redis.TimeCmd, len(items))
	// Use one transaction per page, because a value and its time to live must be of the
	// same instant.
	if _, err := cfg.From.TxPipelined(ctx, func(p redis.Pipeliner) error {
		for i := range items {
			items[i].value = items[i].kind.read(ctx, p, items[i].key)
			times[i] = p.Time(ctx)
			ttls[i] = p.Do(ctx, "PTTL", items[i].key)
		}
		return nil
	}); err != nil && !changed(err) {
		return nil, fmt.Errorf("read from the source: %w", err)
	}
	left := items[:0]
	for i, it := range items {
		// -2 means that the key does not exist; its value may have been read as an empty
		// one.
		ttl, _ := ttls[i].Int64()
		if it.value.Err() != nil || ttl == -2 {
			t.Gone++
			continue
		}
		if ttl > 0 { // PEXPIRETIME would return the end, but only from Redis 7 on
			it.ends = times[i].Val().UnixMilli() + ttl
		}
		left = append(left, it)
	}
	return left, nil
}

// changed reports whether err means that the key no longer exists or now has another type.
func changed(err error) bool {
	return errors.Is(err, redis.Nil) || redis.HasErrorPrefix(err, "WRONGTYPE")
}
