package proc

import (
	"os"
	"os/exec"
	"testing"
	"time"
)

func TestParseCPU(t *testing.T) {
	stat := []byte("42 (a ) name) S 1 42 42 0 -1 4194560 1 0 0 0 150 25 0 0 20 0 9 0 1 2 3\n")
	if got, err := parseCPU(stat); err != nil || got != 1750*time.Millisecond {
		t.Errorf("%v, %v", got, err)
	}
	if _, err := parseCPU([]byte("42 (name) S 1")); err == nil {
		t.Error("no error for a cut line")
	}
}

func TestCPUOfThisProcess(t *testing.T) {
	for start := time.Now(); time.Since(start) < time.Minute; {
		switch used, err := CPU(os.Getpid()); {
		case err != nil:
			t.Fatal(err)
		case used >= 50*time.Millisecond:
			return
		}
	}
	t.Error("a minute of work does not show")
}

func TestResident(t *testing.T) {
	now, peak, err := Resident()
	if err != nil || now < 1<<20 || peak < now {
		t.Errorf("now %d, peak %d, %v", now, peak, err)
	}
}

func TestKibibytes(t *testing.T) {
	status := "Name:\tx\nVmHWM:\t    20 kB\nVmRSS:\t    10 kB\n"
	if n, err := kibibytes(status, "VmRSS:"); n != 10<<10 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
	if _, err := kibibytes(status, "VmSwap:"); err == nil {
		t.Error("no error for a line that is not there")
	}
}

// A process and its children have spent what it has, and they.
func TestTreeCPU(t *testing.T) {
	child := exec.Command("sh", "-c", "i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done; echo done; read line")
	in, err := child.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := out.Read(make([]byte, 4)); err != nil {
		t.Fatal(err)
	}
	own, err := CPU(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	its, err := CPU(child.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	if all, err := TreeCPU(os.Getpid()); err != nil || its == 0 || all < own+its {
		t.Errorf("%v of all, %v of this process and %v of its child: %v", all, own, its, err)
	}
	if err := in.Close(); err != nil {
		t.Fatal(err)
	}
	_ = child.Wait() // read fails
}
