package browser

import (
	"bufio"
	"bytes"
	"flag"
	"image"
	"image/color"
	"image/png"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
)

var (
	pictures = flag.String("pictures", "", "folder that TestPictures writes to; without it there is one picture in memory")
	program  = flag.String("weir", "", "weir, whose serve --demo is drawn")
)

var serving = regexp.MustCompile(`addr=(127\.0\.0\.1:\d+)`)

// demo starts weir serve --demo and returns its address.
func demo(t *testing.T) string {
	t.Helper()
	command := exec.CommandContext(t.Context(), *program, "serve", "--demo", "--http", "127.0.0.1:0")
	command.Cancel = func() error { return command.Process.Signal(os.Interrupt) }
	log, err := command.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { command.Wait() }) // after its context, and so it, ended
	at := make(chan string, 1)
	go func() {
		for lines := bufio.NewScanner(log); lines.Scan(); {
			if match := serving.FindStringSubmatch(lines.Text()); match != nil && len(at) == 0 {
				at <- match[1]
			}
		}
		close(at)
	}()
	addr, ok := <-at
	if !ok {
		t.Fatal("weir serve --demo ended")
	}
	return "http://" + addr
}

// The pictures of the documentation: pages of the demonstration, in both themes and on a phone.
func TestPictures(t *testing.T) {
	if *pictures == "" {
		return // make pictures draws them
	}
	address := demo(t)
	for _, picture := range []struct {
		name, place, theme string
		width, height      int64
		shows              string // an expression that is true once the page does
	}{
		{"overview", "/?window=1h", "light", 1280, 800, `document.querySelectorAll(".rows tr").length > 10 && Number(document.querySelector(".tile.main strong").textContent) > 150`},
		{"overview-dark", "/?window=1d", "dark", 1280, 800, `document.querySelectorAll(".rows tr").length > 10`},
		{"overview-phone", "/?window=1h", "light", 390, 780, `document.querySelectorAll(".rows tr").length > 10`},
		{"key", "/key/url%3A%2Fproducts%2Fumbrella?window=1d", "light", 1280, 1650, `document.querySelector(".said").textContent.includes("exact") && document.querySelector(".heat")`},
		{"limits", "/limits/client?window=1h", "dark", 1280, 1300, `document.body.innerText.includes("api:scraper")`},
		{"site", "/site/shop.example?period=7d", "light", 1280, 1300, `document.querySelectorAll(".rows tr").length > 15`},
		{"live", "/log", "light", 1280, 800, `document.querySelectorAll(".rows tr").length > 60`},
	} {
		t.Run(picture.name, func(t *testing.T) { // its tab closes: a browser opens six connections to a server
			p := open(t, address+"/#"+picture.place)
			p.expectFailures(true) // at the end
			p.do(chromedp.EmulateViewport(picture.width, picture.height),
				call(emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: picture.theme}}}),
				chromedp.Reload())
			p.until(live + " && " + picture.shows)
			shot, err := chromedp.Run(p.ctx, chromedp.CaptureScreenshot())
			if err != nil {
				t.Fatal(err)
			}
			small := smaller(t, shot)
			if err := os.WriteFile(filepath.Join(*pictures, picture.name+".png"), small, 0o644); err != nil {
				t.Fatal(err)
			}
			t.Logf("%s: %d KiB", picture.name, len(small)>>10)
		})
	}
}

// smaller is a picture of at most 256 colours: those of a page are few, and their mixtures near others.
func smaller(t *testing.T, shot []byte) []byte {
	t.Helper()
	from, err := png.Decode(bytes.NewReader(shot))
	if err != nil {
		t.Fatal(err)
	}
	const bits = 0xfc // what of each channel tells colours apart
	count := map[color.RGBA]int{}
	rounded := func(x, y int) color.RGBA {
		r, g, b, _ := from.At(x, y).RGBA()
		return color.RGBA{uint8(r>>8) & bits, uint8(g>>8) & bits, uint8(b>>8) & bits, 255}
	}
	size := from.Bounds()
	first := map[color.RGBA]color.Color{}
	for y := size.Min.Y; y < size.Max.Y; y++ {
		for x := size.Min.X; x < size.Max.X; x++ {
			c := rounded(x, y)
			if count[c]++; count[c] == 1 {
				first[c] = from.At(x, y)
			}
		}
	}
	all := make([]color.RGBA, 0, len(count))
	for c := range count {
		all = append(all, c)
	}
	slices.SortFunc(all, func(a, b color.RGBA) int { return count[b] - count[a] })
	palette := color.Palette{}
	for _, c := range all[:min(len(all), 256)] {
		palette = append(palette, first[c])
	}
	index := map[color.RGBA]uint8{}
	to := image.NewPaletted(size, palette)
	for y := size.Min.Y; y < size.Max.Y; y++ {
		for x := size.Min.X; x < size.Max.X; x++ {
			c := rounded(x, y)
			at, known := index[c]
			if !known {
				at = uint8(palette.Index(c))
				index[c] = at
			}
			to.SetColorIndex(x, y, at)
		}
	}
	var out bytes.Buffer
	if err := (&png.Encoder{CompressionLevel: png.BestCompression}).Encode(&out, to); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}
