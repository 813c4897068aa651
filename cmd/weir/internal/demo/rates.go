package demo

import (
	"math"
	"time"
)

// source is something that is hit, or asked for, again and again.
type source struct {
	key  string
	rate float64 // a second, on the average of a day
	// bursts are when there is more: for the first `of` seconds of every `every`, `times` as much, beginning `after` seconds later.
	every, of, after int64
	times            float64
}

// pages and countries are hit, clients and logins are asked for.
var (
	pages = []source{
		{key: "url:/", rate: 38, every: 1500, of: 90, after: 200, times: 2.2}, {key: "url:/products", rate: 24}, {key: "url:/search", rate: 13, every: 900, of: 60, after: 500, times: 3},
		{key: "url:/api/items", rate: 9}, {key: "url:/cart", rate: 6}, {key: "url:/products/umbrella", rate: 2.5, every: 1800, of: 240, after: 1300, times: 9},
		{key: "url:/checkout", rate: 2.2}, {key: "url:/login", rate: 1.6}, {key: "url:/help", rate: .9}, {key: "url:/about", rate: .4}, {key: "url:/jobs", rate: .08},
	}
	countries = []source{
		{key: "country:de", rate: 31}, {key: "country:us", rate: 24}, {key: "country:fr", rate: 14}, {key: "country:jp", rate: 11}, {key: "country:br", rate: 8}, {key: "country:in", rate: 7},
	}
	clients = []source{
		{key: "api:web", rate: 5.5}, {key: "api:mobile", rate: 3.5}, {key: "api:partner", rate: 1.5, every: 600, of: 30, after: 90, times: 3},
		{key: "api:scraper", rate: 1.2, every: 240, of: 80, after: 20, times: 22}, // the abuser
	}
	logins = []source{
		{key: "login:ada:10.0.0.7", rate: .05}, {key: "login:grace:10.0.0.9", rate: .04}, {key: "login:linus:10.0.1.3", rate: .03},
		{key: "login:admin:203.0.113.66", rate: .06, every: 420, of: 120, after: 60, times: 14}, // guesses passwords
	}
)

const visitors = 4000

// at is the rate at a second of the Unix epoch.
func (s *source) at(second int64) float64 {
	rate := s.rate * day(second)
	if s.every > 0 && mod(second-s.after, s.every) < s.of {
		rate *= s.times
	}
	return rate
}

// day is the rhythm of a day, in UTC: least at four in the morning, most in the afternoon, and less on the days that end
// a week. Its mean is about 1.
func day(second int64) float64 {
	hour := float64(mod(second, 86400)) / 3600
	rhythm := 1 - .72*math.Cos(2*math.Pi*(hour-4)/24) + .14*math.Sin(4*math.Pi*(hour-1)/24)
	if weekday := time.Unix(second, 0).UTC().Weekday(); weekday == time.Saturday || weekday == time.Sunday {
		rhythm *= .75
	}
	return rhythm
}

func mod(a, b int64) int64 { return (a%b + b) % b }
