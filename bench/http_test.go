package main

import (
	"bufio"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestSkipAnswer(t *testing.T) {
	in := bufio.NewReader(strings.NewReader("HTTP/1.1 200 OK\r\nContent-Length: 3\r\nX: y\r\n\r\nabc" +
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n10\r\n0123456789abcdef\r\n0\r\n\r\n" +
		"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\nHTTP/1.1 503 Service Unavailable\r\n\r\n"))
	for range 3 {
		require.NoError(t, skipAnswer(in))
	}
	require.ErrorContains(t, skipAnswer(in), "503")
}

// The rows are those of the promises, with their bounds.
func TestHTTPTargets(t *testing.T) {
	r := &httpReport{Check: []cost{{Rate: 80}}, Bare: []cost{{Rate: 100}}, Auth: []cost{{Rate: 50}}, BareAuth: []cost{{Rate: 100}}, Batch: []cost{{Rate: 65}}, Pipeline: []cost{{Rate: 100}}}
	var marks []string
	for _, v := range r.targets() {
		marks = append(marks, v.mark())
	}
	require.Equal(t, []string{"pass", "miss", "goal"}, marks)
}
