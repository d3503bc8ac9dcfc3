package main

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
)

// readJUnit reads a report of test cases in the form of JUnit.
func readJUnit(text []byte) (result, error) {
	var res result
	var name string
	var failed, skipped bool
	seen := map[string]int{}
	for d := xml.NewDecoder(bytes.NewReader(text)); ; {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return res, err
		}
		switch t := token.(type) {
		case xml.StartElement:
			switch t.Name.Local {
			case "testcase":
				name, failed, skipped = caseName(t), false, false
				if seen[name]++; seen[name] > 1 { // of another group of tests
					name = fmt.Sprintf("%s (%d)", name, seen[name])
				}
			case "failure", "error":
				failed = true
			case "skipped":
				skipped = true
			}
		case xml.EndElement:
			switch {
			case t.Name.Local != "testcase":
			case failed:
				res.failed = append(res.failed, name)
			case skipped:
				res.skipped = append(res.skipped, name)
			default:
				res.passed = append(res.passed, name)
			}
		}
	}
	if len(res.passed)+len(res.failed) == 0 {
		return res, errors.New("no test was run:\n" + string(text))
	}
	return res, nil
}

func caseName(e xml.StartElement) string {
	var class, name string
	for _, a := range e.Attr {
		switch a.Name.Local {
		case "classname":
			class = a.Value
		case "name":
			name = a.Value
		}
	}
	if class == "" || class == "test" {
		return name
	}
	return class + " " + name
}

// tapLine is the result of one test in TAP. A test with the directive "skip" or "todo"
// does not count. Nor do tests of tests, which are indented.
var tapLine = regexp.MustCompile(`^(not )?ok\b(?: \d+)?(?: -)? (.*?)(?: # ((?i)skip|todo)\b.*)?$`)

// readTAP reads a report in the form of the Test Anything Protocol.
func readTAP(text []byte) (result, error) {
	var res result
	for line := range strings.Lines(string(text)) { // of any length
		switch m := tapLine.FindStringSubmatch(strings.TrimRight(line, "\r\n")); {
		case m == nil:
		case m[3] != "":
			res.skipped = append(res.skipped, m[2])
		case m[1] != "":
			res.failed = append(res.failed, m[2])
		default:
			res.passed = append(res.passed, m[2])
		}
	}
	if len(res.passed)+len(res.failed) == 0 {
		return res, errors.New("no test was run:\n" + string(text))
	}
	return res, nil
}
