package browser

import (
	"bytes"
	"cmp"
	"image"
	"image/color"
	"image/draw"
	"image/png"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"
)

// maxShot bounds a screenshot, in bytes.
const maxShot = 150_000

// shot makes a screenshot of the page, from its top, of a height in pixels; 0 means the
// whole page. With -update it becomes docs/img/<name>.png.
func (b *tab) shot(name string, height float64) {
	b.t.Helper()
	size := eval[[]float64](b, "[document.documentElement.clientWidth, document.documentElement.scrollHeight]")
	if height == 0 || height > size[1] {
		height = size[1]
	}
	data := call(b, page.CaptureScreenshot, page.CaptureScreenshotParams{
		Format: "png", CaptureBeyondViewport: new(true), Clip: &page.Viewport{Width: size[0], Height: height, Scale: 1},
	}).Data
	data = smaller(b.t, data)
	require.Less(b.t, len(data), maxShot, name)
	if dir := os.Getenv("SHOTS"); dir != "" {
		require.NoError(b.t, os.WriteFile(filepath.Join(dir, name+".png"), data, 0o644))
	}
	if *update {
		require.NoError(b.t, os.WriteFile(filepath.Join(root, "docs/img", name+".png"), data, 0o644))
	}
}

// smaller returns a PNG of the same picture with at most 256 colours.
func smaller(t testing.TB, data []byte) []byte {
	t.Helper()
	from, err := png.Decode(bytes.NewReader(data))
	require.NoError(t, err)
	to := image.NewNRGBA(from.Bounds())
	draw.Draw(to, to.Bounds(), from, image.Point{}, draw.Src)
	seen := map[color.NRGBA]int{}
	for i := 0; i < len(to.Pix); i += 4 {
		seen[color.NRGBA{to.Pix[i], to.Pix[i+1], to.Pix[i+2], 255}]++
	}
	// The most frequent colours stay, and each other colour becomes the nearest of them.
	common := slices.SortedFunc(maps.Keys(seen), func(x, y color.NRGBA) int {
		return cmp.Or(seen[y]-seen[x], int(x.R)-int(y.R), int(x.G)-int(y.G), int(x.B)-int(y.B))
	})
	var palette color.Palette
	for _, c := range common[:min(len(common), 256)] {
		palette = append(palette, c)
	}
	index := map[color.NRGBA]uint8{}
	for _, c := range common {
		index[c] = uint8(palette.Index(c))
	}
	flat := image.NewPaletted(to.Bounds(), palette)
	for i := range flat.Pix {
		flat.Pix[i] = index[color.NRGBA{to.Pix[4*i], to.Pix[4*i+1], to.Pix[4*i+2], 255}]
	}
	var b bytes.Buffer
	encoder := png.Encoder{CompressionLevel: png.BestCompression}
	require.NoError(t, encoder.Encode(&b, flat))
	return b.Bytes()
}

func TestShots(t *testing.T) {
	s := start(t)
	c := client(t, s.Addr)
	do(t, c, "RL.POLICY", "SET", "api", "{limits: {user: {by: user, rate: 5/m}, day: {by: user, rate: 1000/d, mode: shadow}, ip: {by: ip, rate: 100/s}, login: {by: user, rate: 2/h, penalty: {after: 3, block: 10m}, when: {path: /login}}}}")
	for range 9 {
		do(t, c, "RL.CHECK", "api", "user", "eve", "path", "/login")
		do(t, c, "RL.CHECK", "api", "user", "bob", "ip", "10.1.2.3")
	}
	for _, a := range []string{"token", "leaky", "fixed", "sliding", "log"} {
		for range 4 {
			do(t, c, "RL.LIMIT", "k:"+a, 6, "1m", "ALGORITHM", a)
		}
	}
	b := open(t, s.HTTP, "#playground", desk)
	b.ready("playground")
	b.shot("console-playground", 0)
	for _, k := range []string{"k:token", "k:leaky", "k:fixed", "k:sliding", "k:log", "@api:login;user=eve"} {
		b.visit("#explain?key=" + url.QueryEscape(k))
		b.until("document.querySelector('.key').innerText == " + quoted(k))
		b.shot("x-"+k, 0)
	}
	b.visit("#explain?policy=api")
	b.until("document.querySelector('#policy option[value=api]')")
	b.do(chromedp.SetValue("#policy", "api"), chromedp.SetValue(".pair .v", "bob"), chromedp.Click(".askpolicy > button"))
	b.until("document.querySelector('.answer')")
	b.shot("console-explain", 0)
}
