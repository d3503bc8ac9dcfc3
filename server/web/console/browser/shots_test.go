package browser

import (
	"bytes"
	"cmp"
	"image"
	"image/color"
	"image/draw"
	"image/png"
	"maps"
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

// smaller returns a PNG of the same picture with at most 64 colours.
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
	// Frequent colours come first, but each must differ enough from those before it, so that
	// small marks keep theirs.
	common := slices.SortedFunc(maps.Keys(seen), func(x, y color.NRGBA) int {
		return cmp.Or(seen[y]-seen[x], int(x.R)-int(y.R), int(x.G)-int(y.G), int(x.B)-int(y.B))
	})
	var palette color.Palette
	for apart := 4; ; apart *= 2 {
		palette = palette[:0]
		for _, c := range common {
			if len(palette) <= 64 && !slices.ContainsFunc(palette, func(p color.Color) bool { return distance(p.(color.NRGBA), c) < apart }) {
				palette = append(palette, c)
			}
		}
		if len(palette) <= 64 {
			break
		}
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

// distance returns the square of the distance of two colours.
func distance(x, y color.NRGBA) int {
	r, g, b := int(x.R)-int(y.R), int(x.G)-int(y.G), int(x.B)-int(y.B)
	return r*r + g*g + b*b
}

// TestShots makes the pictures of the documents.
func TestShots(t *testing.T) {
	long(t)
	s := start(t)
	c := client(t, s.Addr)
	prepare(t, c)
	load(t, c)
	if *update { // the charts need a past
		wait(t, 80)
	}
	b := open(t, s.HTTP, "#playground", desk)
	b.ready("playground")
	b.shot("console-playground", 0)
	b.visit("#policies?name=shop%2Fcheckout")
	b.shot("console-policies", 0)
	b.visit("#explain?policy=shop%2Fcheckout")
	b.until("document.querySelector('#policy option[value=\"shop/checkout\"]')")
	b.do(chromedp.SetValue(".pair .v", "buyer-1"), chromedp.Click("fieldset > .quiet"),
		chromedp.SetValue(".pair + .pair .n", "tenant"), chromedp.SetValue(".pair + .pair .v", "store-1"), chromedp.Click(".askpolicy button"))
	b.until("document.querySelector('.answer')")
	b.shot("console-explain", 0)
	b.visit("#now")
	b.until("document.querySelectorAll('.events li').length > 5 && Number(document.querySelector('main').dataset.turns) > 8")
	b.shot("console-now", 0)
	b = open(t, s.HTTP, "#now", night)
	b.ready("now")
	b.until("document.querySelectorAll('.events li').length > 5 && Number(document.querySelector('main').dataset.turns) > 4")
	b.shot("console-now-dark", 0)
	b = open(t, s.HTTP, "#now", phone)
	b.ready("now")
	b.until("document.querySelectorAll('.events li').length > 5")
	b.shot("console-phone", 1560)
}
