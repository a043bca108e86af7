// The list of objects that pthread_atfork tells about a fork.

#include "engine/fork.h"

#include <pthread.h>

#include <algorithm>
#include <mutex>
#include <new>
#include <vector>

namespace plait {
namespace {

struct Registry {
  std::mutex mutex;
  std::vector<ForkAware*> objects;
};

void Before();
void InParent();
void InChild();

Registry& TheRegistry() {
  static Registry* registry = [] {
    pthread_atfork(Before, InParent, InChild);
    return new Registry;
  }();
  return *registry;
}

void Before() {
  Registry& registry = TheRegistry();
  registry.mutex.lock();
  for (auto it = registry.objects.rbegin(); it != registry.objects.rend(); ++it) {
    (*it)->BeforeFork();
  }
}

void InParent() {
  Registry& registry = TheRegistry();
  for (ForkAware* object : registry.objects) object->AfterForkInParent();
  registry.mutex.unlock();
}

void InChild() {
  Registry& registry = TheRegistry();
  for (ForkAware* object : registry.objects) object->AfterForkInChild();
  new (&registry.mutex) std::mutex;
}

}  // namespace

void RegisterForFork(ForkAware* object) {
  Registry& registry = TheRegistry();
  const std::lock_guard lock(registry.mutex);
  registry.objects.push_back(object);
}

void UnregisterForFork(ForkAware* object) {
  Registry& registry = TheRegistry();
  const std::lock_guard lock(registry.mutex);
  std::erase(registry.objects, object);
}

}  // namespace plait
