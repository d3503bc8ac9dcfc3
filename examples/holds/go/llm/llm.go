// Package llm limits the tokens of language models.
package llm

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/redis/go-redis/v9"
)

// Call is one of a model, and what it may take at most.
type Call struct {
	Key, Model              string
	PromptTokens, MaxTokens int
}

// Chunk is a piece of an answer.
type Chunk struct {
	Text   string
	Tokens int // that the call has taken up to here, the prompt's included
}

// LimitedError is that of a call for which there are not enough tokens.
type LimitedError struct {
	Limit string
	Retry time.Duration // below 0 no wait helps
}

func (e *LimitedError) Error() string {
	return fmt.Sprintf("over %s, retry after %v", e.Limit, e.Retry)
}

// Stream sends an answer on as it comes, and charges what it took, however it ends.
func Stream(ctx context.Context, rdb redis.UniversalClient, c Call, answer iter.Seq2[Chunk, error], send func(text string) error) (err error) {
	// With an ID go-redis may repeat it: it holds once.
	r, err := rdb.Do(ctx, "RL.RESERVE", "llm", "key", c.Key, "model", c.Model,
		"tokens", c.PromptTokens+c.MaxTokens, "ID", rand.Text()).Slice()
	if err != nil {
		return err
	}
	if r[0] != int64(1) {
		name, _ := r[6].(string)
		return &LimitedError{name, time.Duration(r[3].(int64)) * time.Millisecond}
	}
	took := 0
	if hold, ok := r[8].(string); ok { // there is none if the policy answered without a leader
		defer func() { err = errors.Join(err, settle(rdb, hold, took)) }()
	}
	for chunk, err := range answer {
		if err != nil {
			return err
		}
		took = chunk.Tokens
		if err := send(chunk.Text); err != nil {
			return err
		}
	}
	return nil
}

// settle tells what a call took until it is answered: the first settlement stands, and to
// repeat it charges nothing. The caller's context may have ended, so it has its own.
func settle(rdb redis.UniversalClient, hold string, tokens int) error {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	for {
		err := rdb.Do(ctx, "RL.COMMIT", hold, "tokens", tokens).Err()
		if err == nil || redis.HasErrorPrefix(err, "NOHOLD") || ctx.Err() != nil {
			return err
		}
		time.Sleep(100 * time.Millisecond)
	}
}
