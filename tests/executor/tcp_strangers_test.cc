// What somebody who is no rank can do to a TCP world: at its rendezvous, where
// ranks come together all the same, and later, where nobody listens.
#include <arpa/inet.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <thread>

#include "executor/tcp/handshake.h"
#include "executor/tcp/rendezvous.h"
#include "executor/tcp/socket.h"
#include "executor/tcp/tcp_world.h"
#include "executor/tcp/wire.h"
#include "gmock/gmock.h"
#include "ir/support/check.h"
#include "ir/support/status.h"

namespace asyra {
namespace {

using testing::AllOf;
using testing::AnyOf;
using testing::HasSubstr;
using Bytes = std::string;

constexpr char kSecret[] = "open sesame";

int FreePort() { return ASYRA_VALUE(Listener::Create("127.0.0.1", 0))->port(); }

TcpWorldOptions OptionsOf(int port, int64_t rank, int64_t size = 2,
                          double timeout_s = 20) {
  return {.port = port,
          .rank = rank,
          .size = size,
          .timeout_s = timeout_s,
          .secret = kSecret};
}

// A connection without a protocol; -1 where nobody listens.
int Connect(int port) {
  int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in at{};
  at.sin_family = AF_INET;
  at.sin_port = htons(static_cast<uint16_t>(port));
  at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (connect(fd, reinterpret_cast<sockaddr*>(&at), sizeof(at)) == 0) return fd;
  close(fd);
  return -1;
}

// The one who calls, as often as he likes. His connections stay open until the
// world is done.
class Stranger {
 public:
  explicit Stranger(int port) : port_(port) {}
  ~Stranger() {
    ends_.store(true);
    for (std::thread& thread : threads_) thread.join();
    for (int fd : open_) close(fd);
  }

  // Waits until somebody listens, unless the world is there already.
  int Call() {
    int fd = -1;
    do {
      fd = Connect(port_);
    } while (fd < 0 && !late);
    if (fd >= 0) ++answered;
    if (fd >= 0) open_.push_back(fd);
    return fd;
  }
  void Say(const Bytes& bytes) { SayOn(Call(), bytes); }
  static void SayOn(int fd, const Bytes& bytes) {
    send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
  }
  void Drip(const Bytes& bytes) {
    int fd = Call();
    threads_.emplace_back([this, fd, bytes] {
      for (size_t i = 0; i < bytes.size() && !ends_.load(); ++i) {
        SayOn(fd, bytes.substr(i, 1));
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
      }
    });
  }
  // Answers the challenge.
  void Greet(int64_t rank, int64_t size, std::string_view secret,
             const Bytes& also = "") {
    int fd = Call();
    if (fd < 0) return;
    Bytes challenge(16 + kNonceBytes, '\0');
    recv(fd, challenge.data(), challenge.size(), MSG_WAITALL);
    Hello hello{rank, size, MakeNonce()};
    SayOn(fd, HeaderOf(kHello, kHelloBytes) +
                  SignHello(hello, secret, challenge.substr(16)) + also);
  }
  void Reset() {
    int fd = Call();
    linger now{1, 0};
    setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
    close(fd);
    if (fd >= 0) open_.pop_back();
  }
  void HalfClose() { shutdown(Call(), SHUT_WR); }

  std::atomic<bool> late = false;  // the ranks are together
  int answered = 0;

 private:
  const int port_;
  std::atomic<bool> ends_ = false;
  std::vector<int> open_;
  std::vector<std::thread> threads_;
};

// As ranks said it before there was a secret.
Bytes OldHello(int64_t rank, int64_t size) {
  Bytes bytes = HeaderOf(0, 16);
  Append(rank, &bytes);
  Append(size, &bytes);
  return bytes;
}

struct Kind {
  const char* name;
  std::function<void(Stranger&)> call;
};

const std::vector<Kind>& Kinds() {
  static const auto& kinds = *new std::vector<Kind>{
      {"silent", [](Stranger& s) { s.Call(); }},
      {"200 silent",
       [](Stranger& s) {
         for (int i = 0; i < 200; ++i) s.Call();
       }},
      {"eight bytes", [](Stranger& s) { s.Say(Bytes(8, '\0')); }},
      {"one byte of ours", [](Stranger& s) { s.Say("R"); }},
      {"garbage", [](Stranger& s) { s.Say(Bytes(100000, '\x9c')); }},
      {"http", [](Stranger& s) { s.Say("GET / HTTP/1.1\r\nHost: a\r\n\r\n"); }},
      {"tls",
       [](Stranger& s) {
         s.Say({"\x16\x03\x01\x02\x00\x01\x00", 7});
       }},
      {"huge hello",
       [](Stranger& s) { s.Say(HeaderOf(kHello, (1ULL << 40) - 1)); }},
      {"huge data", [](Stranger& s) { s.Say(HeaderOf(kData, 1ULL << 40)); }},
      {"endless hello", [](Stranger& s) { s.Say(HeaderOf(kHello, ~0ULL)); }},
      {"drip",
       [](Stranger& s) {
         s.Drip(HeaderOf(kHello, kHelloBytes) + Bytes(80, 1));
       }},
      {"half a hello",
       [](Stranger& s) { s.Say(HeaderOf(kHello, kHelloBytes) + "half"); }},
      {"hello without body", [](Stranger& s) { s.Say(HeaderOf(kHello, 0)); }},
      {"old hello", [](Stranger& s) { s.Say(OldHello(1, 2)); }},
      {"old hello of another world",
       [](Stranger& s) { s.Say(OldHello(7, 9)); }},
      {"hello that answers no challenge",
       [](Stranger& s) {
         s.Say(HeaderOf(kHello, kHelloBytes) +
               SignHello({1, 2, MakeNonce()}, kSecret, Bytes(32, 'x')));
       }},
      {"wrong secret", [](Stranger& s) { s.Greet(1, 2, "open barley"); }},
      {"no secret", [](Stranger& s) { s.Greet(1, 2, ""); }},
      {"another world", [](Stranger& s) { s.Greet(1, 9, kSecret); }},
      {"rank 0 again", [](Stranger& s) { s.Greet(0, 2, kSecret); }},
      {"rank beyond", [](Stranger& s) { s.Greet(2, 2, kSecret); }},
      {"rank below", [](Stranger& s) { s.Greet(INT64_MIN, 2, kSecret); }},
      {"wrong secret and more",
       [](Stranger& s) { s.Greet(1, 2, "", Bytes(5000, 'x')); }},
      {"reset", [](Stranger& s) { s.Reset(); }},
      {"half close", [](Stranger& s) { s.HalfClose(); }},
      {"abort of a rank",
       [](Stranger& s) { s.Say(HeaderOf(kAbort, 8) + Bytes(8, '\0')); }},
  };
  return kinds;
}

// Whether each round gives what the ranks bring.
absl::Status Work(Communicator& world) {
  for (int round = 0; round < 20; ++round) {
    auto said = [&](int64_t rank) {
      return Bytes(static_cast<size_t>(1000 * round + rank), 'a');
    };
    ASYRA_ASSIGN_OR_RETURN(std::vector<std::string> all,
                           world.Exchange(said(world.rank())));
    for (int64_t r = 0; r < world.size(); ++r) {
      if (all[r] != said(r)) return Invalid("round {}: wrong bytes", round);
    }
  }
  return absl::OkStatus();
}

// Two ranks with a secret; `before` is called as rank 0 waits for rank 1, and
// `during` while they work.
void ExpectRanksWork(int port, const std::function<void()>& before,
                     const std::function<void()>& during) {
  absl::Status results[2];
  std::atomic<int> there = 0;
  auto rank = [&](int64_t r) {
    auto world = ConnectTcp(OptionsOf(port, r));
    results[r] = world.status();
    ++there;
    while (there < 3 && world.ok()) std::this_thread::yield();
    if (world.ok()) results[r] = Work(**world);
  };
  std::thread zero([&] { rank(0); });
  before();
  std::thread one([&] { rank(1); });
  while (there < 2) std::this_thread::yield();
  ++there;
  during();
  one.join();
  zero.join();
  for (const absl::Status& status : results) EXPECT_TRUE(status.ok()) << status;
}

TEST(Strangers, OfNoKindKeepRanksApart) {
  for (const Kind& kind : Kinds()) {
    SCOPED_TRACE(kind.name);
    int port = FreePort();
    Stranger stranger(port);
    int answered = 0;
    ExpectRanksWork(
        port, [&] { kind.call(stranger); },
        [&] {
          // Nobody answers them any more.
          stranger.late = true;
          answered = stranger.answered;
          kind.call(stranger);
        });
    EXPECT_GT(answered, 0);
    EXPECT_EQ(stranger.answered, answered);
  }
}

TEST(Strangers, OfAllKindsTogetherAreCounted) {
  int port = FreePort();
  Stranger stranger(port);
  std::thread calls([&] {
    for (const Kind& kind : Kinds()) kind.call(stranger);
  });
  absl::Status said = ConnectTcp(OptionsOf(port, 0, 2, 4)).status();
  calls.join();
  EXPECT_THAT(std::string(MessageOf(said)),
              AllOf(HasSubstr("rank 1 has not come to 127.0.0.1 port "),
                    HasSubstr("within 4 s; 225 connections were dropped: "),
                    HasSubstr(" with another protocol"), HasSubstr(" and ")));
  EXPECT_LT(said.message().size(), 300);
}

// Only who knows the secret is told what is wrong with the world.
TEST(Strangers, AreToldWhyTheyAreDropped) {
  int port = FreePort();
  absl::Status zero;
  std::thread thread(
      [&] { zero = ConnectTcp(OptionsOf(port, 0, 2, 2)).status(); });
  TcpWorldOptions other = OptionsOf(port, 1);
  other.secret = "of another job";
  EXPECT_THAT(ConnectTcp(other).status().ToString(),
              HasSubstr("does not let this rank in: it comes with another "
                        "secret"));
  EXPECT_THAT(ConnectTcp(OptionsOf(port, 3, 4)).status().ToString(),
              HasSubstr("as rank 3 of 4, to a world of 2"));
  thread.join();
  EXPECT_THAT(zero.ToString(),
              HasSubstr("; 2 connections were dropped: 1 as rank 3 of 4, to a "
                        "world of 2, 1 with another secret"));
}

// A rank that is there is not replaced.
TEST(Strangers, ThatComeAsARankThatIsThereAreDropped) {
  int port = FreePort();
  absl::Status results[3];
  std::vector<std::thread> threads;
  auto rank = [&](int64_t r) {
    threads.emplace_back([&, r] {
      auto world = ConnectTcp(OptionsOf(port, r, 3));
      results[r] = world.ok() ? Work(**world) : world.status();
    });
  };
  rank(0);
  // The rank itself, until rank 2 comes.
  auto one = ASYRA_VALUE(JoinRanks(OptionsOf(port, 1, 3)));
  EXPECT_THAT(ConnectTcp(OptionsOf(port, 1, 3)).status().ToString(),
              HasSubstr("as rank 1, which is there already"));
  rank(2);
  ASYRA_CHECK_OK(one->Send(kAbort, Bytes(8, '\0') + "enough", 5));
  for (std::thread& thread : threads) thread.join();
  for (int r : {0, 2}) {
    EXPECT_THAT(results[r].ToString(), HasSubstr("rank 1 failed: enough"));
  }
}

// Somebody who listens where rank 0 should.
TEST(Strangers, AreNotTakenForRank0) {
  std::vector<std::pair<Bytes, std::string>> answers = {
      {"", "ended"},
      {"HTTP/1.1 400 Bad Request\r\n\r\n", "no message of ours"},
      {HeaderOf(kData, ~0ULL), "at most"},
      {HeaderOf(kAbort, 8) + Bytes(8, '\0'), "no challenge"},
      {HeaderOf(kChallenge, 32) + Bytes(32, 'c') + HeaderOf(kWelcome, 32) +
           Bytes(32, 'w'),
       "does not know the secret"}};
  for (const auto& answer : answers) {
    const auto& says = answer.first;
    const auto& why = answer.second;
    auto listener = ASYRA_VALUE(Listener::Create("127.0.0.1", 0));
    std::atomic<bool> ends = false;
    std::thread thread([&] {
      std::vector<int> open;
      while (!ends.load()) {
        int fd = accept(listener->fds()[0], nullptr, nullptr);
        if (fd < 0) {
          std::this_thread::sleep_for(std::chrono::milliseconds(1));
          continue;
        }
        Stranger::SayOn(fd, says);
        if (says.empty()) close(fd);
        if (!says.empty()) open.push_back(fd);
      }
      for (int fd : open) close(fd);
    });
    absl::Status said =
        ConnectTcp(OptionsOf(listener->port(), 1, 2, 0.3)).status();
    ends.store(true);
    thread.join();
    EXPECT_THAT(
        said.ToString(),
        AllOf(HasSubstr("rank 0 has not let this rank in"), HasSubstr(why)));
  }
}

// Rank 1 of two as the messages of a socket, which has joined rank 0's world.
struct Puppet {
  explicit Puppet(double timeout_s) {
    int port = FreePort();
    std::thread zero([&] {
      world = ASYRA_VALUE(ConnectTcp(OptionsOf(port, 0, 2, timeout_s)));
    });
    socket = ASYRA_VALUE(JoinRanks(OptionsOf(port, 1)));
    ASYRA_CHECK_OK(socket->Send(kGather, "", 5));  // that of connecting
    zero.join();
  }
  std::unique_ptr<Communicator> world;
  std::unique_ptr<Socket> socket;
};

// A process that is stopped takes nothing.
TEST(ARankThatStops, IsNamedByWhoSendsToIt) {
  Puppet one(2);
  ASYRA_CHECK_OK(one.socket->Send(kGather, "", 5));
  EXPECT_TRUE(one.world->Exchange(Bytes(50 << 20, 'x')).ok());
  absl::Status said = one.world->Exchange("").status();
  EXPECT_THAT(said.ToString(),
              AnyOf(HasSubstr("rank 1 failed: it takes no messages"),
                    HasSubstr("rank 1 failed: its process gives no sign"),
                    HasSubstr("nothing was heard from rank 1 within 2 s")));
}

TEST(ARankThatStops, IsNamedByWhoReceivesFromIt) {
  for (bool drips : {false, true}) {
    Puppet one(2);
    std::thread slow([&] {
      Stranger::SayOn(one.socket->fd(),
                      HeaderOf(kGather, 1 << 20) + Bytes(1000, 'x'));
      for (int i = 0; i < 100 && drips; ++i) {
        Stranger::SayOn(one.socket->fd(), "x");
        std::this_thread::sleep_for(std::chrono::milliseconds(50));
      }
    });
    absl::Status said = one.world->Exchange("").status();
    EXPECT_THAT(said.ToString(),
                AnyOf(HasSubstr("rank 1 failed: a message stands still"),
                      HasSubstr("rank 1 failed: its process gives no sign"),
                      HasSubstr("nothing was heard from rank 1")));
    slow.join();
  }
}

TEST(ARankThatSpeaksNonsense, IsNamed) {
  Bytes data;
  for (int64_t number : {1, 7, 0}) Append(number, &data);
  std::vector<std::pair<Bytes, std::string>> nonsense = {
      {HeaderOf(kStep, 1), "a message of kind 6 states 1 bytes"},
      {HeaderOf(kGather, ~0ULL), "states 18446744073709551615 bytes"},
      {HeaderOf(99, 0), "it sends a message of kind 99"},
      {HeaderOf(kHello, 0), "it sends a message of kind 1"},
      {HeaderOf(kAll, 0), "it sends 0 parts of an exchange"},
      {HeaderOf(kData, data.size()) + data, "it sends data of rank 1 to 7"},
      {HeaderOf(kData, 3) + "abc", "it sends data of rank 0 to 0"},
      {Bytes(16, 'x'), "no message of ours"}};
  for (const auto& [bytes, why] : nonsense) {
    Puppet one(10);
    Stranger::SayOn(one.socket->fd(), bytes);
    EXPECT_THAT(one.world->Exchange("").status().ToString(),
                AllOf(HasSubstr("rank 1 failed: "), HasSubstr(why)));
  }
}

TEST(TcpWorld, ListensWhereItIsMeantTo) {
  TcpWorldOptions options = OptionsOf(FreePort(), 0, 2, 0.3);
  options.host = "192.0.2.1";  // nobody's, by RFC 5737
  EXPECT_THAT(ConnectTcp(options).status().ToString(),
              HasSubstr("rank 0 cannot listen at 192.0.2.1"));
  options.listen = "0.0.0.0";
  EXPECT_THAT(ConnectTcp(options).status().ToString(),
              HasSubstr("rank 1 has not come to 0.0.0.0"));
  // Another address of this host is not listened at.
  auto at = ASYRA_VALUE(Listener::Create("127.0.0.2", 0));
  EXPECT_LT(Connect(at->port()), 0);
  // And a port in use is said.
  auto in_use = ASYRA_VALUE(Listener::Create("127.0.0.1", 0));
  EXPECT_THAT(ConnectTcp(OptionsOf(in_use->port(), 0)).status().ToString(),
              HasSubstr("in use"));
}

}  // namespace
}  // namespace asyra
