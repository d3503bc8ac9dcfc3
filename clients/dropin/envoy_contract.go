package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/headgate-io/headgate/internal/respclient"
)

// entry is a key and its value in a descriptor of a request.
type entry struct {
	Key   string `json:"key"`
	Value string `json:"value,omitempty"`
}

// envoyAnswer is what the service says to a request. Numbers of 64 bits and
// durations are strings.
type envoyAnswer struct {
	OverallCode string `json:"overallCode"`
	Statuses    []struct {
		Code               string `json:"code"`
		LimitRemaining     int    `json:"limitRemaining"`
		DurationUntilReset string `json:"durationUntilReset"`
	} `json:"statuses"`
}

const (
	envoyOK   = "OK"
	envoyOver = "OVER_LIMIT"
)

// askAll sends one request of some descriptors.
func (s *envoyService) askAll(descriptors ...[]entry) (envoyAnswer, error) {
	type descriptor struct {
		Entries []entry `json:"entries"`
	}
	request := struct {
		Domain      string       `json:"domain"`
		Descriptors []descriptor `json:"descriptors"`
	}{Domain: "dropin"}
	for _, d := range descriptors {
		request.Descriptors = append(request.Descriptors, descriptor{d})
	}
	var answer envoyAnswer
	body, err := json.Marshal(request)
	if err != nil {
		return answer, err
	}
	res, err := http.Post(s.url, "application/json", bytes.NewReader(body))
	if err != nil {
		return answer, err
	}
	defer res.Body.Close()
	if err := json.NewDecoder(res.Body).Decode(&answer); err != nil {
		return answer, fmt.Errorf("%s: %w", res.Status, err)
	}
	if over := answer.OverallCode == envoyOver; over != (res.StatusCode == http.StatusTooManyRequests) {
		return answer, fmt.Errorf("%s, and %s", answer.OverallCode, res.Status)
	}
	if len(answer.Statuses) != len(descriptors) {
		return answer, fmt.Errorf("%d statuses of %d descriptors", len(answer.Statuses), len(descriptors))
	}
	return answer, nil
}

// ask sends one request of one descriptor.
func (s *envoyService) ask(entries ...entry) (envoyAnswer, error) { return s.askAll(entries) }

// envoyChecks are the contract. Windows are those of the clock: a check begins
// where its window does not end soon.
var envoyChecks = []struct {
	name string
	run  func(*envoyService) error
}{
	{"it counts down, then denies", (*envoyService).countsDown},
	{"per minute, under load", (*envoyService).perMinute},
	{"per second, under load", (*envoyService).perSecond},
	{"two descriptors, either denies", (*envoyService).either},
	{"its keys expire", (*envoyService).keysExpire},
}

// runEnvoy runs the contract in each way to set the service up.
func runEnvoy(ctx context.Context, w *workshop, s *suite, t target) (result, error) {
	dir, err := w.goRoom(s)
	if err != nil {
		return result{}, err
	}
	addrs, stop, err := t.cluster(ctx)
	if err != nil {
		return result{}, err
	}
	var res result
	for _, mode := range envoyModes {
		redis := []string{t.addr}
		if mode.cluster {
			redis = addrs
		}
		if _, err := respclient.Do(redis[0], time.Second, "FLUSHALL"); err != nil {
			return res, errors.Join(err, stop())
		}
		service, err := startEnvoy(ctx, dir, mode, redis)
		if err != nil {
			return res, errors.Join(err, stop())
		}
		for _, check := range envoyChecks {
			name := mode.name + ": " + check.name
			if err := check.run(service); err != nil {
				res.failed = append(res.failed, name)
				fmt.Fprintf(w.log, "%s: %v\n%s\n", name, err, service.log)
				continue
			}
			res.passed = append(res.passed, name)
		}
		_ = service.run.Kill() // an error means that it has ended
	}
	if err := stop(); err != nil {
		res.failed = append(res.failed, err.Error())
	}
	return res, nil
}

// early waits until no window of a length ends within some time.
func early(window, need time.Duration) {
	now := time.Now()
	if left := now.Truncate(window).Add(window).Sub(now); left < need {
		time.Sleep(left + 10*time.Millisecond)
	}
}

func (s *envoyService) countsDown() error {
	early(time.Minute, 2*time.Second)
	for left := 2; left >= -1; left-- {
		answer, err := s.ask(entry{"plan", "free"}, entry{"user", "slow"})
		if err != nil {
			return err
		}
		want, remaining := envoyOK, left
		if left < 0 {
			want, remaining = envoyOver, 0
		}
		status := answer.Statuses[0]
		if answer.OverallCode != want || status.Code != want || status.LimitRemaining != remaining {
			return fmt.Errorf("want %s and %d, got %+v", want, remaining, answer)
		}
		if reset, err := time.ParseDuration(status.DurationUntilReset); err != nil || reset <= 0 || reset > time.Hour {
			return fmt.Errorf("reset in %q (%v)", status.DurationUntilReset, err)
		}
	}
	return nil
}

// load asks n times from some clients at once, and counts what is admitted.
func load(clients, n int, ask func(i int) (envoyAnswer, error), admitted func(i int)) error {
	var next atomic.Int64
	var wg sync.WaitGroup
	errs := make([]error, clients)
	for client := range clients {
		wg.Go(func() {
			for errs[client] == nil {
				i := int(next.Add(1)) - 1
				if i >= n {
					return
				}
				answer, err := ask(i)
				if errs[client] = err; err == nil && answer.OverallCode == envoyOK {
					admitted(i)
				}
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

func (s *envoyService) perMinute() error {
	const users, requests = 20, 60
	early(time.Minute, 20*time.Second)
	from := time.Now()
	var counts [users]atomic.Int64
	err := load(16, users*requests, func(i int) (envoyAnswer, error) {
		return s.ask(entry{"user", fmt.Sprint("loaded", i%users)})
	}, func(i int) { counts[i%users].Add(1) })
	if err != nil {
		return err
	}
	if !time.Now().Truncate(time.Minute).Equal(from.Truncate(time.Minute)) {
		return fmt.Errorf("%d requests took %v, into another minute", users*requests, time.Since(from))
	}
	for i := range counts {
		if n := counts[i].Load(); n != 40 {
			return fmt.Errorf("%d of %d requests were admitted where 40 are", n, requests)
		}
	}
	return nil
}

func (s *envoyService) perSecond() error {
	const whole = 3 // seconds that are loaded from their beginning to their end
	early(time.Second, time.Second)
	from := time.Now()
	var count atomic.Int64
	var wg sync.WaitGroup
	errs := make([]error, 8)
	for client := range errs {
		wg.Go(func() {
			for time.Since(from.Truncate(time.Second)) < (whole+1)*time.Second && errs[client] == nil {
				answer, err := s.ask(entry{"address", "loaded"})
				if errs[client] = err; err == nil && answer.OverallCode == envoyOK {
					count.Add(1)
				}
				time.Sleep(time.Millisecond)
			}
		})
	}
	wg.Wait()
	seconds := time.Now().Unix() - from.Unix() + 1
	if n := count.Load(); n < 5*whole || n > 5*seconds {
		return fmt.Errorf("%d were admitted in %d seconds, at 5 a second", n, seconds)
	}
	return errors.Join(errs...)
}

func (s *envoyService) either() error {
	early(time.Minute, 5*time.Second)
	ask := func(address string) (overall, codes string, err error) {
		answer, err := s.askAll([]entry{{"user", "either"}}, []entry{{"address", address}})
		if err != nil {
			return "", "", err
		}
		return answer.OverallCode, answer.Statuses[0].Code + " " + answer.Statuses[1].Code, nil
	}
	early(time.Second, 800*time.Millisecond)
	for i := range 6 {
		want := "OK OK OK"
		if i == 5 {
			want = "OVER_LIMIT OK OVER_LIMIT"
		}
		overall, codes, err := ask("first")
		if got := overall + " " + codes; err != nil || got != want {
			return fmt.Errorf("request %d: want %s, got %s (%v)", i, want, got, err)
		}
	}
	// 6 of the 40 are spent, or fewer where counting stops at a limit.
	var overall, codes string
	for i := range 41 {
		var err error
		if overall, codes, err = ask(fmt.Sprint("other", i)); err != nil {
			return err
		}
	}
	if got := overall + " " + codes; got != "OVER_LIMIT OVER_LIMIT OK" {
		return errors.New("at the end of the minute's: " + got)
	}
	return nil
}

func (s *envoyService) keysExpire() error {
	keys, err := respclient.Do(s.redis, time.Second, "KEYS", "*")
	if err != nil {
		return err
	}
	if len(keys.Elems) == 0 {
		return errors.New("there are no keys")
	}
	for _, key := range keys.Elems {
		ttl, err := respclient.Do(s.redis, time.Second, "TTL", key.Str)
		if err != nil {
			return err
		}
		// -2 is the reply for a key that has gone meanwhile.
		if ttl.Int == -1 || ttl.Int > 3600 {
			return fmt.Errorf("%s lives for %d s", key.Str, ttl.Int)
		}
	}
	return nil
}

// clusterState is what a node of Redis Cluster says of its cluster.
func clusterState(addr string) (string, error) {
	info, err := respclient.Do(addr, time.Second, "CLUSTER", "INFO")
	if err != nil {
		return "", err
	}
	_, state, _ := strings.Cut(info.Str, "cluster_state:")
	state, _, _ = strings.Cut(state, "\r\n")
	return state, nil
}
