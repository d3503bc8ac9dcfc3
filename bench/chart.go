package main

import (
	"fmt"
	"html"
	"strings"
)

// Dimensions of the chart in pixels.
const (
	chartWidth  = 760
	labelWidth  = 210
	valueWidth  = 90
	barHeight   = 20
	barGap      = 6
	groupGap    = 34
	chartMargin = 16
)

// throughputChart draws one group of horizontal bars per scenario, each group
// on a scale of its own.
func throughputChart(list []*series) string {
	var body strings.Builder
	y := chartMargin
	for start := 0; start < len(list); {
		end, most := start, 0.0
		for ; end < len(list) && list[end].Scenario == list[start].Scenario; end++ {
			most = max(most, list[end].rate())
		}
		y += groupGap / 2
		fmt.Fprintf(&body, `<text class="t" x="%d" y="%d">%s, commands/s</text>`+"\n", chartMargin, y, html.EscapeString(list[start].Scenario))
		y += groupGap / 3
		for _, s := range list[start:end] {
			drawBar(&body, y, s, most)
			y += barHeight + barGap
		}
		start = end
	}
	return fmt.Sprintf(`<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %[1]d %[2]d" role="img" aria-label="Throughput by server">
<style>
text { font: 13px system-ui, sans-serif; fill: #24292f }
.t { font-weight: 600 }
.n { text-anchor: end }
.ours { fill: #1f7a8c }
.peer { fill: #b8c4cc }
rect.bg { fill: #ffffff }
</style>
<rect class="bg" width="100%%" height="100%%"/>
%s</svg>
`, chartWidth, y+chartMargin, body.String())
}

func drawBar(body *strings.Builder, y int, s *series, most float64) {
	class := "peer"
	if s.Peer == headgate {
		class = "ours"
	}
	left := chartMargin + labelWidth
	width := int(float64(chartWidth-left-valueWidth-chartMargin) * s.rate() / max(most, 1))
	base := y + barHeight*3/4
	fmt.Fprintf(body, `<text class="n" x="%d" y="%d">%s</text><rect class="%s" x="%d" y="%d" width="%d" height="%d" rx="2"/><text x="%d" y="%d">%s</text>`+"\n",
		left-8, base, html.EscapeString(s.Label), class, left, y, max(width, 1), barHeight, left+width+8, base, thousands(s.rate()))
}

// thousands prints a rate as 834 k or 1.24 M.
func thousands(v float64) string {
	if v >= 1e6 {
		return fmt.Sprintf("%.2f M", v/1e6)
	}
	return fmt.Sprintf("%.0f k", v/1e3)
}
