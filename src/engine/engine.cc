// Engine: the engine of the process, and the failing end of the inline path.

#include "engine/engine.h"

#include <cstdlib>

#include "base/error.h"
#include "base/options.h"
#include "engine/serial_engine.h"
#include "engine/threaded_engine.h"

namespace plait {
namespace {

bool WantsSerial() {
  const std::string& kind = GetOption(Option::kEngine);
  if (kind == "serial" || kind == "NaiveEngine") return true;
  Check(kind == "threaded" || kind == "ThreadedEngine" ||
            kind == "ThreadedEnginePerDevice",
        "PLAIT_ENGINE: got '", kind,
        "'; threaded or serial was expected (or ThreadedEnginePerDevice, "
        "ThreadedEngine, NaiveEngine)");
  return false;
}

}  // namespace

Engine& Engine::Get() {
  static Engine* const engine = [] {
    Engine* made =
        (WantsSerial() ? MakeSerialEngine() : MakeThreadedEngine()).release();
    std::atexit([] { Get().Shutdown(); });
    return made;
  }();
  return *engine;
}

void Engine::EndFailed(VarSpan reads, VarSpan writes, std::exception_ptr error) {
  const Ref<Failure> failure = MakeRef<Failure>();
  failure->error = std::move(error);
  NoteFailure(failure.get());
  for (Var* var : reads) {
    if (var->EndRead()) Advance(*var);
  }
  for (Var* var : writes) {
    var->SetFailure(failure.get());
    if (var->EndWrite()) Advance(*var);
  }
  InlineSections::Leave();
}

std::unique_ptr<Engine> MakeThreadedEngine() {
  return std::make_unique<ThreadedEngine>(GetOptionInt(Option::kWorkers),
                                          GetOptionInt(Option::kRunAhead));
}

std::unique_ptr<Engine> MakeSerialEngine() {
  return std::make_unique<SerialEngine>();
}

}  // namespace plait
