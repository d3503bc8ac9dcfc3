package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/headgate-io/headgate/internal/hgtest"
	"github.com/headgate-io/headgate/internal/respclient"
)

// Files of the service that both sides are given: its published examples, files of
// its own tests, and one of ours. Windows are made days, so that both have the same.
var (
	envoyFiles = []string{
		"examples/ratelimit/config/config.yaml", "examples/ratelimit/config/example.yaml",
		"test/config/basic_config.yaml", "test/config/shadowmode_config.yaml", "test/config/wildcard.yaml", "test/config/share_threshold.yaml",
	}
	envoyUnit = regexp.MustCompile(`unit: *"?[A-Za-z]+"?`)
)

const envoyOwn = `domain: ours
descriptors:
  - key: a
    rate_limit: {unit: day, requests_per_unit: 7, name: a}
  - key: a
    value: x
    rate_limit: {unit: day, requests_per_unit: 5, replaces: [{name: b}, {name: nobody}]}
    descriptors:
      - {key: b, rate_limit: {unit: day, requests_per_unit: 3}}
      - {key: b, value: "y*", share_threshold: true, rate_limit: {unit: day, requests_per_unit: 9}}
      - {key: b, value: "z*", value_to_metric: true, rate_limit: {unit: day, requests_per_unit: 4}}
      - {key: c, descriptors: [{key: a, rate_limit: {unit: day, requests_per_unit: 2}, detailed_metric: true}]}
  - {key: b, rate_limit: {unit: day, requests_per_unit: 4, name: b}}
  - {key: b, value: "x*", shadow_mode: true, rate_limit: {unit: day, requests_per_unit: 2, name: c}}
  - {key: b, value: xy, rate_limit: {unlimited: true, replaces: [{name: a}]}}
  - {key: c, value: x, rate_limit: {unit: day, requests_per_unit: 0, name: c}}
  - {key: c, rate_limit: {unit: day, requests_per_unit: 20, replaces: [{name: c}]}}
`

// askedDescriptor is a descriptor of a request; nil hits are none.
type askedDescriptor struct {
	Entries []entry       `json:"entries"`
	Limit   *askedLimit   `json:"limit,omitempty"`
	Hits    *envoyInteger `json:"hitsAddend,omitempty"`
}

type askedLimit struct {
	Requests int    `json:"requestsPerUnit"`
	Unit     string `json:"unit"`
}

// envoyInteger is a number of 64 bits, which JSON of protocol buffers has as text.
type envoyInteger int64

func (n envoyInteger) MarshalJSON() ([]byte, error) {
	return json.Marshal(strconv.FormatInt(int64(n), 10))
}

// envoyRequest is a request, as JSON and as RL.DESCRIPTORS.
type envoyRequest struct {
	Domain      string            `json:"domain"`
	Descriptors []askedDescriptor `json:"descriptors"`
	Hits        int               `json:"hitsAddend,omitempty"`
}

// words are the request as a command.
func (q *envoyRequest) words() []string {
	words := []string{"RL.DESCRIPTORS", q.Domain, strconv.Itoa(q.Hits), strconv.Itoa(len(q.Descriptors))}
	for _, d := range q.Descriptors {
		words = append(words, strconv.Itoa(len(d.Entries)))
		for _, e := range d.Entries {
			words = append(words, e.Key, e.Value)
		}
		hits, limit := "-", "-"
		if d.Hits != nil {
			hits = strconv.FormatInt(int64(*d.Hits), 10)
		}
		if d.Limit != nil {
			limit = fmt.Sprintf("%d/%s", d.Limit.Requests, d.Limit.Unit)
		}
		words = append(words, hits, limit)
	}
	return words
}

// verdictOf asks the service, and writes what it says on one line.
func (s *envoyService) verdictOf(q *envoyRequest) (string, error) {
	body, err := json.Marshal(q)
	if err != nil {
		return "", err
	}
	res, err := http.Post(s.url, "application/json", bytes.NewReader(body))
	if err != nil {
		return "", err
	}
	defer res.Body.Close()
	var answer struct {
		OverallCode string
		Statuses    []struct {
			Code         string
			CurrentLimit *struct {
				RequestsPerUnit int
				Unit, Name      string
			}
			LimitRemaining int
		}
	}
	if err := json.NewDecoder(res.Body).Decode(&answer); err != nil {
		return "", fmt.Errorf("%s: %w", res.Status, err)
	}
	line := strings.ToLower(answer.OverallCode)
	for _, s := range answer.Statuses {
		line += fmt.Sprintf("; %s, %d left", strings.ToLower(s.Code), s.LimitRemaining)
		if l := s.CurrentLimit; l != nil {
			line += fmt.Sprintf(" of %d/%s %s", l.RequestsPerUnit, strings.ToLower(l.Unit), l.Name)
		}
	}
	return line, nil
}

// verdictHere asks Headgate, and writes the same.
func verdictHere(addr string, q *envoyRequest) (string, error) {
	reply, err := respclient.Do(addr, time.Second, q.words()...)
	if err != nil {
		return "", err
	}
	line := reply.Elems[0].Str
	for _, s := range reply.Elems[4].Elems {
		line += fmt.Sprintf("; %s, %d left", s.Elems[0].Str, s.Elems[5].Int)
		if requests := s.Elems[1].Int; requests >= 0 {
			line += fmt.Sprintf(" of %d/%s %s", requests, s.Elems[2].Str, s.Elems[4].Str)
		}
	}
	return line, nil
}

// runEnvoyDialect gives the service and Headgate the same files, here imported, and
// the same requests: all that they say is to be equal.
func runEnvoyDialect(ctx context.Context, w *workshop, s *suite, t target) (res result, err error) {
	dir, err := w.goRoom(s)
	if err != nil {
		return res, err
	}
	files, err := envoyTexts(filepath.Join(dir, "source"))
	if err != nil {
		return res, err
	}
	early(24*time.Hour, 5*time.Minute)
	for name, text := range files {
		differs, err := compareEnvoy(ctx, dir, t.addr, text)
		switch {
		case err != nil:
			return res, fmt.Errorf("%s: %w", name, err)
		case differs != "":
			res.failed = append(res.failed, name)
			fmt.Fprintf(w.log, "%s: %s\n", name, differs)
		default:
			res.passed = append(res.passed, name)
		}
	}
	return res, nil
}

// envoyTexts returns the files, with days as units.
func envoyTexts(source string) (map[string]string, error) {
	files := map[string]string{"a file of ours": envoyOwn}
	for _, name := range envoyFiles {
		text, err := os.ReadFile(filepath.Join(source, filepath.FromSlash(name)))
		if err != nil {
			return nil, err
		}
		files[name] = envoyUnit.ReplaceAllString(string(text), "unit: day")
	}
	return files, nil
}

// compareEnvoy returns the first request that is answered differently, "" for none.
func compareEnvoy(ctx context.Context, dir, redis, text string) (differs string, err error) {
	if _, err := respclient.Do(redis, time.Second, "FLUSHALL"); err != nil { // domains are in several files
		return "", err
	}
	service, err := startEnvoyWith(ctx, dir, envoyModes[0], []string{redis}, text)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, service.run.Kill()) }()
	here, err := hgtest.Start(hgtest.Config{})
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, here.Stop()) }()
	if err := importEnvoy(ctx, here.Addr, text); err != nil {
		return "", err
	}
	words := envoyWords(text)
	rnd := rand.New(rand.NewPCG(14, uint64(len(text))))
	for i := range 1500 {
		q := words.request(rnd)
		want, err := service.verdictOf(&q)
		if err != nil {
			return "", err
		}
		got, err := verdictHere(here.Addr, &q)
		if err != nil {
			return "", err
		}
		if got != want {
			return fmt.Sprintf("request %d, %v\n  there: %s\n  here:  %s", i, q.words(), want, got), nil
		}
	}
	return "", nil
}

// importEnvoy imports a file, and loads what that prints.
func importEnvoy(ctx context.Context, addr, text string) error {
	bin, err := hgtest.Binary()
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, bin, "import", "envoy", "-")
	cmd.Stdin = strings.NewReader(text)
	policies, err := cmd.Output()
	if err != nil {
		return err
	}
	_, err = respclient.Do(addr, time.Second, "RL.POLICY", "LOAD", string(policies))
	return err
}

// envoyVocabulary has what requests are made of: the domain, keys and values of a
// file, and some that it has not.
type envoyVocabulary struct {
	domain       string
	keys, values []string
}

var envoyWord = regexp.MustCompile(`(domain|key|value): *"?([^"\s,}]+)`)

func envoyWords(text string) (v envoyVocabulary) {
	for _, m := range envoyWord.FindAllStringSubmatch(text, -1) {
		switch m[1] {
		case "domain":
			v.domain = m[2]
		case "key":
			v.keys = append(v.keys, m[2])
		case "value":
			stem := strings.TrimSuffix(m[2], "*")
			v.values = append(v.values, m[2], stem, stem+"1", stem+"2")
		}
	}
	v.keys, v.values = append(v.keys, "unknown"), append(v.values, "", "x", "other")
	return v
}

// request makes a request of up to three descriptors of up to three entries.
func (v *envoyVocabulary) request(rnd *rand.Rand) envoyRequest {
	pick := func(of []string) string { return of[rnd.IntN(len(of))] }
	q := envoyRequest{Domain: v.domain, Hits: rnd.IntN(3)}
	for range 1 + rnd.IntN(3) {
		var d askedDescriptor
		for range 1 + rnd.IntN(3) {
			d.Entries = append(d.Entries, entry{pick(v.keys), pick(v.values)})
		}
		if rnd.IntN(3) == 0 {
			hits := envoyInteger(rnd.IntN(4))
			d.Hits = &hits
		}
		if rnd.IntN(10) == 0 {
			d.Limit = &askedLimit{rnd.IntN(6), "DAY"}
		}
		q.Descriptors = append(q.Descriptors, d)
		if rnd.IntN(20) == 0 { // the same once more
			q.Descriptors = append(q.Descriptors, d)
		}
	}
	return q
}
