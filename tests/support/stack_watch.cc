#include "tests/support/stack_watch.h"

#include <dirent.h>
#include <execinfo.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <vector>

namespace asyra {
namespace {

// Only what a signal handler may do: backtrace has been called once before, so
// that it loads nothing here.
void PrintStack(int) {
  int saved = errno;
  void* frames[64];
  int count = backtrace(frames, 64);
  backtrace_symbols_fd(frames, count, STDERR_FILENO);
  errno = saved;
}

std::vector<pid_t> Threads() {
  std::vector<pid_t> threads;
  DIR* folder = opendir("/proc/self/task");
  if (folder == nullptr) return threads;
  while (const dirent* entry = readdir(folder)) {
    if (int thread = std::atoi(entry->d_name); thread > 0) {
      threads.push_back(thread);
    }
  }
  closedir(folder);
  return threads;
}

void PrintAllStacks() {
  auto self = static_cast<pid_t>(syscall(SYS_gettid));
  for (pid_t thread : Threads()) {
    if (thread == self) continue;
    std::fprintf(stderr, "stack of thread %d\n", thread);
    syscall(SYS_tgkill, getpid(), thread, SIGUSR1);
    // Each prints its own: the next one begins when this one has.
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
}

void HandleSignal() {
  void* frame[1];
  backtrace(frame, 1);
  struct sigaction action = {};
  action.sa_handler = PrintStack;
  action.sa_flags = SA_RESTART;
  sigaction(SIGUSR1, &action, nullptr);
}

}  // namespace

StackWatch::StackWatch(std::chrono::milliseconds after) {
  HandleSignal();
  thread_ = std::thread([this, after] {
    std::unique_lock lock(mutex_);
    if (!ended_.wait_for(lock, after, [this] { return over_; })) {
      PrintAllStacks();
    }
  });
}

StackWatch::~StackWatch() {
  {
    std::lock_guard lock(mutex_);
    over_ = true;
  }
  ended_.notify_one();
  thread_.join();
}

}  // namespace asyra
