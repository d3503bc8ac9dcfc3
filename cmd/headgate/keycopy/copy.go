package keycopy

import (
	"context"
	"errors"
	"fmt"

	"github.com/redis/go-redis/v9"
)

// Config says what to copy.
type Config struct {
	From, To *redis.Client
	// Match is a pattern of SCAN; "" means all keys of the database.
	Match string
	// Replace overwrites keys that exist at the target. Without Replace, these are kept.
	Replace bool
	// Refused is called for each key that could not be copied, except for keys that were
	// gone or kept. It may be nil.
	Refused func(key string, why error)
	// Progress is called after each page of keys; it may be nil.
	Progress func(Totals)
}

// Totals counts keys by what happened to them.
type Totals struct {
	Copied int // with the source's value
	Gone   int // expired or deleted between their listing and their reading
	Kept   int // existed at the target
	// Unsupported and TooLarge count keys that the target cannot hold, because of their
	// type or because they exceed Headgate's bounds (engine/packed).
	Unsupported, TooLarge int
	Failed                int // the target replied an error
}

// Refused returns the number of keys for which Config.Refused is called.
func (t Totals) Refused() int { return t.Unsupported + t.TooLarge + t.Failed }

func (cfg *Config) refuse(key string, why error) {
	if cfg.Refused != nil {
		cfg.Refused(key, why)
	}
}

// Seen returns the number of keys looked at.
func (t Totals) Seen() int {
	return t.Copied + t.Gone + t.Kept + t.Unsupported + t.TooLarge + t.Failed
}

const (
	// page is how many keys are listed, read and written at a time.
	page = 256
	// batch bounds what is in memory at a time: that many elements, or 16 bytes of a string
	// for each. A larger value is copied alone.
	batch = 16384
	// chunk is how many elements one command writes.
	chunk = 1000
)

// Copy copies the keys that match, in pages. If a key changes during the copy, the
// copied value may be the value before or after the change. To avoid this, stop the
// writers first, or copy again with Replace. However long the copy takes, a key expires
// at the same time on both servers if their clocks agree. Copy ends at the first error
// of a connection, of the source or of ctx. The keys that were copied until then stay on
// the target.
func Copy(ctx context.Context, cfg Config) (Totals, error) {
	var t Totals
	var cursor uint64
	for {
		keys, next, err := cfg.From.Scan(ctx, cursor, cfg.Match, page).Result()
		if err != nil {
			return t, fmt.Errorf("list the source's keys: %w", err)
		}
		if err := cfg.copyPage(ctx, keys, &t); err != nil {
			return t, err
		}
		if cfg.Progress != nil {
			cfg.Progress(t)
		}
		if cursor = next; cursor == 0 {
			return t, nil
		}
	}
}

// copyPage copies some keys. It leaves out the keys that cannot be copied, and reads and
// writes the others.
func (cfg *Config) copyPage(ctx context.Context, keys []string, t *Totals) error {
	items, err := cfg.describe(ctx, keys, t)
	if err != nil {
		return err
	}
	if items, err = cfg.absent(ctx, items, t); err != nil {
		return err
	}
	for len(items) > 0 {
		n, size := 0, int64(0)
		for n < len(items) && (n == 0 || size+items[n].size <= batch) {
			size += items[n].size
			n++
		}
		some, err := cfg.read(ctx, items[:n], t)
		if err != nil {
			return err
		}
		if err := cfg.write(ctx, some, t); err != nil {
			return err
		}
		items = items[n:]
	}
	return nil
}

// absent returns the items whose keys do not exist at the target.
func (cfg *Config) absent(ctx context.Context, items []item, t *Totals) ([]item, error) {
	if cfg.Replace || len(items) == 0 {
		return items, nil
	}
	there := make([]*redis.IntCmd, len(items))
	_, err := cfg.To.Pipelined(ctx, func(p redis.Pipeliner) error {
		for i := range items {
			there[i] = p.Exists(ctx, items[i].key)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("ask the target which keys it has: %w", err)
	}
	left := items[:0]
	for i, it := range items {
		if there[i].Val() > 0 {
			t.Kept++
			continue
		}
		left = append(left, it)
	}
	return left, nil
}

// write writes the items. If a key has expired meanwhile, it is gone after the item's
// transaction.
func (cfg *Config) write(ctx context.Context, items []item, t *Totals) error {
	results := make([][]*redis.Cmd, len(items))
	_, err := cfg.To.Pipelined(ctx, func(p redis.Pipeliner) error {
		for i := range items {
			it := &items[i]
			// In a transaction, each reply is QUEUED, so the type of do's result does not
			// matter.
			do := func(args ...any) { results[i] = append(results[i], p.Do(ctx, args...)) }
			do("MULTI")
			do("DEL", it.key)
			it.kind.write(it, do)
			if it.ends > 0 {
				do("PEXPIREAT", it.key, it.ends)
			}
			do("EXEC")
		}
		return nil
	})
	var answer redis.Error
	if err != nil && !errors.As(err, &answer) {
		return fmt.Errorf("write to the target: %w", err)
	}
	for i := range items {
		switch err := firstError(results[i]); {
		case err == nil:
			t.Copied++
		default:
			t.Failed++
			cfg.refuse(items[i].key, err)
		}
	}
	return nil
}

// firstError returns the error of a transaction: of a command that was refused, or of a
// command that failed in EXEC.
func firstError(cmds []*redis.Cmd) error {
	for _, c := range cmds {
		if err := c.Err(); err != nil {
			return err
		}
	}
	if len(cmds) == 0 {
		return nil
	}
	if replies, ok := cmds[len(cmds)-1].Val().([]any); ok {
		for _, r := range replies {
			if err, ok := r.(error); ok {
				return err
			}
		}
	}
	return nil
}
