package load

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
)

// overHTTP makes a biller's call over HTTP, under the name that Idempotency-Key has. code
// is the error's, "" without one, and "UNCERTAIN" if the call may have been executed.
func (b *biller) overHTTP(addr string, call []string) (a answer, code string) {
	body := map[string]any{}
	key, rest := "", call[2:]
	if call[0] == "RL.COMMIT" || call[0] == "RL.CANCEL" {
		body["hold"] = call[1]
	} else {
		body["policy"] = call[1]
	}
	for i := 0; i+1 < len(rest); i += 2 {
		switch name, value := rest[i], rest[i+1]; name {
		case "COST":
			body["cost"] = json.Number(value)
		case "ID":
			key = value
		default:
			body["attributes"] = map[string]string{name: value}
		}
	}
	text, err := json.Marshal(body)
	if err != nil {
		return a, err.Error()
	}
	q, err := http.NewRequest(http.MethodPost, "http://"+addr+"/v1/"+strings.ToLower(strings.TrimPrefix(call[0], "RL.")), bytes.NewReader(text))
	if err != nil {
		return a, err.Error()
	}
	q.Header.Set("Content-Type", "application/json")
	if key != "" {
		q.Header.Set("Idempotency-Key", strconv.Quote(key))
	}
	reply, err := b.client.Do(q)
	if err != nil {
		if unsent(err) {
			return a, "CLUSTERDOWN"
		}
		return a, "UNCERTAIN"
	}
	defer reply.Body.Close()
	got, err := io.ReadAll(reply.Body)
	switch {
	case err != nil:
		return a, "UNCERTAIN"
	case reply.StatusCode == http.StatusOK:
		return answerOfJSON(got), ""
	}
	if code = codeOf(got); refusals[code] || code == "UNCERTAIN" {
		return a, code
	}
	return a, fmt.Sprintf("%s: %s", reply.Status, got)
}

// codeOf is the code of an error reply that a problem has.
func codeOf(problem []byte) string {
	var p struct{ Code string }
	if json.Unmarshal(problem, &p) != nil {
		return ""
	}
	return p.Code
}

// told are the fields of a verdict, in the order of RL.CHECK's reply, which the limits
// are left out of.
var told = [...]string{"allowed", "limit", "remaining", "retry_after_ms", "reset_after_ms", "delay_ms", "name", "reason", "hold", "version", "applied", "over"}

// answerOfJSON is answerOf for a verdict in JSON.
func answerOfJSON(text []byte) (a answer) {
	var v map[string]any
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	if err := d.Decode(&v); err != nil {
		return answer{error: err.Error()}
	}
	a.allowed = v["allowed"] == true
	a.hold, _ = v["hold"].(string)
	var parts []string
	for _, name := range told {
		switch x := v[name].(type) {
		case bool:
			parts = append(parts, map[bool]string{true: "1", false: "0"}[x])
		case json.Number:
			parts = append(parts, x.String())
		case string:
			parts = append(parts, x+"0")
		default:
			if name != "over" { // which is of settlements
				parts = append(parts, "0")
			}
		}
	}
	a.rest = strings.Join(parts, " ")
	return a
}
