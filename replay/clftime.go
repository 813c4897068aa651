package replay

import (
	"time"

	"github.com/weir-counter/weir/window"
)

// clfTimeLen is the length of a log time: 10/Oct/2000:13:55:36 -0700.
const clfTimeLen = 26

// clfClock reads log times. Lines of a log mostly share the minute and the
// zone with the line before, so those are parsed once and then only compared.
type clfClock struct {
	minute [17]byte // 10/Oct/2000:13:55
	zone   [6]byte  // " -0700"
	base   int64    // Unix seconds of that minute; valid once minute is set
}

// parse reads the first clfTimeLen bytes of b. Second 60 (a leap second) is
// the first second of the next minute, as it is to every Unix clock.
func (c *clfClock) parse(b []byte) (int64, bool) {
	if len(b) < clfTimeLen || b[17] != ':' {
		return 0, false
	}
	second, ok := twoDigits(b[18], b[19])
	if !ok || second > 60 {
		return 0, false
	}
	if [17]byte(b[:17]) != c.minute || [6]byte(b[20:26]) != c.zone {
		base, ok := parseMinute([17]byte(b[:17]), [6]byte(b[20:26]))
		if !ok {
			return 0, false
		}
		c.minute, c.zone, c.base = [17]byte(b[:17]), [6]byte(b[20:26]), base
	}
	return c.base + int64(second), true
}

func parseMinute(m [17]byte, z [6]byte) (int64, bool) {
	if m[2] != '/' || m[6] != '/' || m[11] != ':' || m[14] != ':' || z[0] != ' ' {
		return 0, false
	}
	day, ok1 := twoDigits(m[0], m[1])
	month := monthOf(string(m[3:6]))
	century, ok2 := twoDigits(m[7], m[8])
	year, ok3 := twoDigits(m[9], m[10])
	hour, ok4 := twoDigits(m[12], m[13])
	minute, ok5 := twoDigits(m[15], m[16])
	zoneHour, ok6 := twoDigits(z[2], z[3])
	zoneMinute, ok7 := twoDigits(z[4], z[5])
	ok := ok1 && ok2 && ok3 && ok4 && ok5 && ok6 && ok7
	if !ok || month == 0 || hour > 23 || minute > 59 || zoneHour > 23 || zoneMinute > 59 {
		return 0, false
	}
	t := time.Date(century*100+year, month, day, hour, minute, 0, 0, time.UTC)
	if t.Day() != day { // time.Date turns 31 February into 3 March
		return 0, false
	}
	offset := int64(zoneHour*3600 + zoneMinute*60)
	switch z[1] {
	case '+':
		return t.Unix() - offset, true
	case '-':
		return t.Unix() + offset, true
	}
	return 0, false
}

func monthOf(name string) time.Month {
	switch name {
	case "Jan":
		return time.January
	case "Feb":
		return time.February
	case "Mar":
		return time.March
	case "Apr":
		return time.April
	case "May":
		return time.May
	case "Jun":
		return time.June
	case "Jul":
		return time.July
	case "Aug":
		return time.August
	case "Sep":
		return time.September
	case "Oct":
		return time.October
	case "Nov":
		return time.November
	case "Dec":
		return time.December
	}
	return 0
}

func twoDigits(a, b byte) (int, bool) {
	x, y := a-'0', b-'0'
	return int(x)*10 + int(y), x <= 9 && y <= 9
}

// inRange tells whether the engine can hold a hit of this time.
func inRange(at int64) bool { return at >= 0 && at <= window.MaxTime }
