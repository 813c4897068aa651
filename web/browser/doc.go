// Package browser has the tests of the dashboard in Chromium, in front of real servers. It is a module of its own:
// building Weir does not need a driver of browsers.
package browser
