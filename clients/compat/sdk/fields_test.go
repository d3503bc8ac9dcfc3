package sdk_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestFields compares the fields that each SDK reads with those that the server names, in
// the server's order: a new field must not be forgotten.
func TestFields(t *testing.T) {
	conn, err := net.Dial("tcp", servers.Plain.Addr)
	require.NoError(t, err)
	defer func() { _ = conn.Close() }()
	require.NoError(t, conn.SetDeadline(time.Now().Add(10*time.Second)))
	r := bufio.NewReader(conn)
	do := func(command string, more ...string) any {
		words := append(strings.Split(command, " "), more...)
		_, err := fmt.Fprintf(conn, "*%d\r\n", len(words))
		require.NoError(t, err)
		for _, w := range words {
			_, err := fmt.Fprintf(conn, "$%d\r\n%s\r\n", len(w), w)
			require.NoError(t, err)
		}
		reply, err := read(r)
		require.NoError(t, err)
		return reply
	}
	names := func(reply any) (of []string) {
		require.IsType(t, ordered{}, reply)
		for _, p := range reply.(ordered) {
			of = append(of, p.name)
		}
		return of
	}
	do("HELLO 3")
	policy := fmt.Sprintf("fields%d", os.Getpid())
	do("RL.POLICY SET "+policy, "{limits: {all: {rate: 100/h}}}")
	check := do("RL.CHECK " + policy)
	var limits any
	for _, p := range check.(ordered) {
		if p.name == "limits" {
			limits = p.value.([]any)[0]
		}
	}
	reserved := do("RL.RESERVE " + policy)
	hold := ""
	for _, p := range reserved.(ordered) {
		if p.name == "hold" {
			hold = p.value.(string)
		}
	}
	key := newKey()
	// By the name of the list in Go, TypeScript and Python.
	want := map[[3]string]any{
		{"decisionFields", "numbers", "DECISION"}: do("RL.LIMIT " + key + " 100 1h"),
		{"leaseFields", "ofLease", "LEASE"}:       do("RL.LEASE " + key + " 100 1h NEED 1 WANT 10 TTL 2s ID a SEQ 1"),
		{"slotFields", "ofSlots", "ACQUIRE"}:      do("RL.ACQUIRE " + newKey() + " 1 30s"),
		{"checkFields", "ofCheck", "CHECK"}:       check,
		{"limitFields", "ofLimit", "OF_CHECK"}:    limits,
	}
	require.Equal(t, names(check), names(reserved))
	// A settlement also names a debt, which no SDK shows.
	require.Equal(t, append(names(check), "over"), names(do("RL.COMMIT "+hold+" COST 1")))
	for language, file := range []string{"../../go/reply.go", "../../typescript/src/decision.ts", "../../python/src/headgate_client/_reply.py"} {
		source, err := os.ReadFile(file)
		require.NoError(t, err)
		list := func(name string) []string {
			found := regexp.MustCompile(`(?m)^(?:const |\t)?`+name+`\b[^=\n]*= (.*)$`).FindAllStringSubmatch(string(source), -1)
			require.Len(t, found, 1, "%s: %s", file, name)
			return regexp.MustCompile(`"\w+"|decisionFields|numbers|DECISION`).FindAllString(found[0][1], -1)
		}
		for lists, reply := range want {
			var have []string
			for _, word := range list(lists[language]) {
				if name, err := strconv.Unquote(word); err == nil {
					have = append(have, name)
					continue
				}
				for _, name := range list(word) {
					have = append(have, strings.Trim(name, `"`))
				}
			}
			require.Equal(t, names(reply), have, "%s: %s", file, lists[language])
		}
	}
}

// ordered is a map of RESP3 in the server's order.
type ordered []pair

type pair struct {
	name  string
	value any
}

// read reads a reply of RESP3. Numbers are texts.
func read(r *bufio.Reader) (any, error) {
	line, err := r.ReadString('\n')
	if err != nil {
		return nil, err
	}
	kind, line := line[0], strings.TrimSpace(line[1:])
	switch kind {
	case '-':
		return nil, fmt.Errorf("the server answered %s", line)
	case '$':
		n, err := strconv.Atoi(line)
		if err != nil {
			return nil, err
		}
		text := make([]byte, n+2)
		_, err = io.ReadFull(r, text)
		return string(text[:n]), err
	case '*', '%':
		n, err := strconv.Atoi(line)
		if err != nil {
			return nil, err
		}
		var list []any
		var pairs ordered
		for range n {
			value, err := read(r)
			if err != nil {
				return nil, err
			}
			if kind == '*' {
				list = append(list, value)
				continue
			}
			of, err := read(r)
			if err != nil {
				return nil, err
			}
			pairs = append(pairs, pair{fmt.Sprint(value), of})
		}
		if kind == '*' {
			return list, nil
		}
		return pairs, nil
	}
	return line, nil
}
