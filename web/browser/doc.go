// Package browser has the tests of the dashboard in Chromium, in front of real servers. It is a module of its own:
// nobody who builds Weir needs what drives a browser.
package browser
